"""A net of your own: any ``torch.nn.Module`` through ``torch.func.functional_call``.

Its head is the submodule ``head``, else its last ``nn.Linear`` with an output for each class; what goes into the head
are its features, and all that is before is the extractor. So methods that share or keep one of the two work with it.
Parameters are named as those of the nets here: ``extractor.*`` and ``head.*``, normalisation layers end with ``norm``,
and the head's last layer is ``head.out``. Running statistics of BatchNorm are parameters too; other buffers, and
parameters that take no gradient, are constants of the net.

A module holds the state of a call, so each thread has a copy of its own, without parameters (on the ``meta`` device).
"""

import copy
import threading
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.lazy import LazyModuleMixin

from ecgfed.base.errors import EcgfedError, OptionError
from ecgfed.core.nets.dropout import DROPOUTS, drawing_layer, dropout_key, seeded
from ecgfed.core.nets.layers import BUFFER_SUFFIXES, Params, mapped_over_clients
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.nets.net_source import NORMS, NetSource, drawing
from ecgfed.core.nets.parts import is_norm

#: modality -> name of the first input in exported graphs
INPUT_NAMES = {"ecg": "window", "image": "image", "array": "example"}
#: Examples that a module is tried with.
_PROBE = 3
#: How far a module's output may be from its head's.
_TOLERANCE = 1e-4


class _Capture(nn.Module):
    """Stands in for the head: holds what goes into it."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes, self.calls = classes, list[Tensor]()

    def forward(self, features: Tensor) -> Tensor:
        self.calls.append(features)
        return features.new_zeros((features.shape[0], self.classes))


@dataclass
class _Copies:
    """One thread's modules: the body in training and for inference, and the head."""

    training: nn.Module
    inference: nn.Module
    head: nn.Module


class ModuleNet(Net):
    """The functions of somebody's own module.

    Args:
        spec: with ``module``: shape and dtype of an example, and where the class comes from.
        source: creates the module.

    Raises:
        OptionError: it is no module, fails, or has no head as described above.
    """

    def __init__(self, spec: NetSpec, source: NetSource) -> None:
        assert spec.module is not None
        self.source, self.name, form = source, source.short, spec.module
        self.input_name = INPUT_NAMES[form.modality]
        self.input_shape, self.input_type = form.shape, getattr(torch, form.dtype)
        self.spec = spec
        self._local = threading.local()
        module = self._built(0)
        self._head_path = self._find_head(module)
        self.names = self._names(module)
        features = self._check(module)
        self._check_buffers(module)
        #: device -> tensors that are not trained, by their names in the module
        self._constants = {torch.device("cpu"): self._constants_of(module)}
        self._template = _on_meta(module)
        super().__init__(spec, features, 0)
        self._check_repeatable()

    def initial(self, seed: int) -> Params:
        """Create the module anew after seeding torch's generator; the same seed gives the same bits."""
        module = self._built(seed)
        stored = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return {name: stored[original].detach().clone() for name, original in self.names.items()}

    def draw_extractor(self, draw: object) -> None:
        raise NotImplementedError("the module draws its own parameters")

    def extract(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Return what goes into the head, (B, features) float32."""
        copies = self._copies()
        body = copies.inference if stats is None else copies.training
        values = {original: params[name] for name, original in self.names.items() if name.startswith("extractor.")}
        running = {name: original for name, original in self.names.items() if name.endswith(BUFFER_SUFFIXES)}
        if stats is not None:  # updated in place, and never the caller's
            values |= {original: params[name].clone() for name, original in running.items()}
        values |= self._constants_on(inputs.examples.device)
        features = self._features(body, values, inputs)
        if stats is not None:
            stats.update({name: values[original].detach() for name, original in running.items()})
        return features

    def classify(self, params: Params, features: Tensor) -> Tensor:
        """Logits (B, classes) of features (B, features)."""
        within, constants = f"{self._head_path}.", self._constants_on(features.device)
        values = {original: params[name] for name, original in self.names.items() if name.startswith("head.")}
        values |= {name: value for name, value in constants.items() if name.startswith(within)}
        inside = {name.removeprefix(within): value for name, value in values.items()}
        logits: Tensor = functional_call(self._copies().head, inside, (features,))
        return logits

    def stacking_problem(self) -> str:
        norms = [path for path, part in self._template.named_modules() if isinstance(part, _NormBase)]
        if norms and any(name.endswith(BUFFER_SUFFIXES) for name in self.names):
            return f"its {norms[0]} has running statistics, which rows that pad a stack of clients would enter"
        params, inputs = self.initial(0), self._probe()
        with torch.no_grad():
            alone, padded = (self.extract(params, each, {})[:_PROBE] for each in (inputs, _padded(inputs)))
        if not torch.allclose(alone, padded, _TOLERANCE, _TOLERANCE):
            return "in training its features depend on other rows of a batch, as those that pad a stack of clients"

        def loss(params: Params, examples: Tensor) -> Tensor:
            return self.logits(params, Inputs(examples, inputs.rr), {}).logsumexp(1).mean()

        stacked = {name: torch.stack([value, value]) for name, value in params.items()}
        try:
            with mapped_over_clients():
                torch.func.vmap(torch.func.grad(loss))(stacked, torch.stack([inputs.examples, inputs.examples]))
        except Exception as problem:  # whatever torch and the module raise
            reason = problem.reason if isinstance(problem, EcgfedError) else str(problem)
            return f"torch.func.vmap cannot map it over clients ({' '.join(reason.split())[:160]})"
        return ""

    def _constants_of(self, module: nn.Module) -> Params:
        stored = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        own = (name for name in stored if not name.endswith("num_batches_tracked"))
        return {name: stored[name].detach().clone() for name in own if name not in self.names.values()}

    def _constants_on(self, device: torch.device) -> Params:
        """Return the constants on a device, copied once: nothing can be while a CUDA graph is captured."""
        if device not in self._constants:
            on_cpu = self._constants[torch.device("cpu")]
            self._constants[device] = {name: value.to(device) for name, value in on_cpu.items()}
        return self._constants[device]

    def _built(self, seed: int) -> nn.Module:
        """Return the module, float32 on the CPU, as its class makes it after seeding."""
        with drawing(seed):
            module = self.source.create(self.spec.classes)
            types = (value.dtype for value in module.parameters() if value.dtype is not torch.float32)
            self._other_type = next(types, None)
            if any(isinstance(part, LazyModuleMixin) for part in module.modules()):
                self._run(module.to("cpu", torch.float32).eval(), self._probe())  # without values it has no copy
            try:
                return copy.deepcopy(module).to("cpu", torch.float32)
            except Exception as problem:  # of a computed tensor, as in the old torch.nn.utils.weight_norm
                reason = f"cannot be copied ({' '.join(str(problem).split())[:160]})"
                raise self._error(reason, "parameters and buffers alone") from problem

    def _probe(self) -> Inputs:
        """A few drawn examples; of whole numbers zeros, which are an index into everything."""
        shape, generator = (_PROBE, *self.input_shape), torch.Generator().manual_seed(0)
        if self.input_type.is_floating_point:
            examples = torch.randn(shape, generator=generator, dtype=self.input_type)
        elif self.input_type is torch.uint8:
            examples = torch.randint(256, shape, generator=generator, dtype=self.input_type)
        else:
            examples = torch.zeros(shape, dtype=self.input_type)
        return Inputs(examples, torch.zeros(_PROBE, self.spec.rr_count) if self.spec.rr else None)

    def _run(self, module: nn.Module, inputs: Inputs, values: Params | None = None) -> Tensor:
        """Call a module on a batch; bytes come as numbers from 0 to 1. Raises OptionError with what it raises."""
        examples = inputs.examples
        if examples.dtype is torch.uint8:
            examples = examples.to(torch.float32) / 255
        arguments = (examples,) if not self.spec.rr else (examples, inputs.rr)
        try:
            output: Tensor = functional_call(module, values or {}, arguments)
        except Exception as problem:
            what = f"{self.name} fails on examples of shape {tuple(inputs.examples.shape)}"
            reason = f"{what} with {type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
            expected = "a module that takes a batch of them"
            raise OptionError("net", reason, expected, self._advice(problem), code="code-not-loaded") from problem
        return output

    def _advice(self, problem: Exception) -> str:
        """Return what to do about a module that fails, where the input or the parameters suggest it."""
        if self._other_type is not None and "dtype" in str(problem):
            return f"its parameters of {self._other_type} are trained as torch.float32, so leave the inputs so"
        if self.input_type is torch.int64 and not isinstance(problem, IndexError):
            return "whole numbers come as torch.int64: for a net of float32 pass X as float32"
        if isinstance(problem, TypeError):
            return "of several inputs make one array, and take it apart in forward"
        return ""

    def _features(self, body: nn.Module, values: Params, inputs: Inputs) -> Tensor:
        capture = body.get_submodule(self._head_path)
        assert isinstance(capture, _Capture)
        capture.calls.clear()
        with dropout_key(inputs) if body.training else dropout_key(None):
            self._run(body, inputs, values)
        if len(capture.calls) != 1:
            raise self._error(f"calls its head {self._head_path} {len(capture.calls)} times", "once")
        return capture.calls.pop()

    def _copies(self) -> _Copies:
        """Return this thread's modules."""
        copies: _Copies | None = getattr(self._local, "copies", None)
        if copies is None:
            training, inference = self._body(self._template).train(), self._body(self._template).eval()
            head = copy.deepcopy(self._template).get_submodule(self._head_path).eval()
            copies = self._local.copies = _Copies(training, inference, head)
        return copies

    def _body(self, module: nn.Module) -> nn.Module:
        """Return a copy without the head, its dropout seeded by the batch."""
        body = copy.deepcopy(module)
        _put(body, self._head_path, _Capture(self.spec.classes))
        for number, (path, part) in enumerate(list(body.named_modules())):
            if (replacement := seeded(part, number)) is not None:
                _put(body, path, replacement)
            if isinstance(part, _NormBase):
                part.num_batches_tracked = None
        return body

    def _find_head(self, module: nn.Module) -> str:
        """Return the path of the head, which ends with a linear layer; raises OptionError."""
        if not any(part.requires_grad for part in module.parameters()):
            raise self._error("has no parameters", "a module that learns")
        if isinstance(module, nn.Linear):
            raise self._error("is a layer itself", "a module that has one", "put it into nn.Sequential")
        linear = {path: part for path, part in module.named_modules() if isinstance(part, nn.Linear)}
        fitting = [path for path, part in linear.items() if part.out_features == self.spec.classes]
        own = isinstance(getattr(module, "head", None), nn.Module)
        head = "head" if own else (fitting or list(linear) or [""])[-1]
        layers = [part for part in module.get_submodule(head).modules() if not list(part.children())] if head else []
        last = layers[-1] if layers else None
        fits = isinstance(last, nn.Linear) and last.bias is not None and last.out_features == self.spec.classes
        if last is None or not fits or not all(part.requires_grad for part in last.parameters()):
            expected = f"a submodule 'head', or a last layer, that ends with nn.Linear(..., {self.spec.classes})"
            problem = "has no nn.Linear layer" if last is None else f"ends with {last}"
            raise self._error(problem, f"{expected} with a bias, both trained")
        if odd := [part for part in layers if isinstance(part, (*DROPOUTS, _NormBase))]:
            raise self._error(f"has {odd[0]} in its head", "none there", "move it before the head")
        inside, outside = set[Tensor](), set[Tensor]()
        for name, value in module.named_parameters(remove_duplicate=False):
            (inside if name.startswith(f"{head}.") else outside).add(value)
        if inside & outside:
            raise self._error(f"shares parameters between its head {head} and the layers before", "a head of its own")
        return head

    def _names(self, module: nn.Module) -> dict[str, str]:
        """Return parameters and running statistics: the name here -> the module's own."""
        head, (*_, last) = self._head_path, module.get_submodule(self._head_path).named_modules()
        out = ".".join(part for part in (head, last[0]) if part)
        norms = {path for path, part in module.named_modules() if isinstance(part, NORMS)}
        names: dict[str, str] = {}
        running = (name for name, _ in module.named_buffers() if name.endswith(BUFFER_SUFFIXES))
        for original in [*(name for name, part in module.named_parameters() if part.requires_grad), *running]:
            path, _, leaf = original.rpartition(".")
            layer = path
            if (path in norms) != is_norm(path):
                layer += "_norm" if path in norms else "_layer"
            if path == out:
                name = f"head.out.{leaf}"
            elif path == head or path.startswith(f"{head}."):
                name = f"head.{f'{layer}.{leaf}'.removeprefix(f'{head}.')}"
            else:
                name = ".".join(part for part in ("extractor", layer, leaf) if part)
            if name in names:
                both = f"{names[name].rpartition('.')[0]} and {original.rpartition('.')[0]}"
                raise self._error(f"has layers {both}, which are named alike here", "other names", "rename one")
            names[name] = original
        return names

    def _check(self, module: nn.Module) -> int:
        """Return the number of features; refuse a module whose output is not its head's."""
        moving = [part for part in module.modules() if isinstance(part, _NormBase) and part.track_running_stats]
        if any(part.momentum is None for part in moving):
            raise self._error("has BatchNorm with momentum None", "a number, such as 0.1")
        inputs, classes = self._probe(), self.spec.classes
        with torch.no_grad():
            output = self._run(module.eval(), inputs)
            features = self._features(self._body(module).eval(), {}, inputs)
            if features.ndim != 2:
                shape = tuple(features.shape)
                raise self._error(f"has features of shape {shape} before {self._head_path}", f"({_PROBE}, features)")
            logits = module.get_submodule(self._head_path)(features)
            first = Inputs(inputs.examples[:-1], None if inputs.rr is None else inputs.rr[:-1])
            fewer = self._features(self._body(module).eval(), {}, first)
        if not isinstance(output, Tensor) or output.shape != (_PROBE, classes):
            what = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
            expected = f"logits ({_PROBE}, {classes}), one for each class, and nothing beside them"
            raise self._error(f"returns {what} for {_PROBE} examples", expected)
        if not output.isfinite().all():
            raise self._error(f"returns values that are not finite for {_PROBE} drawn examples", "finite logits")
        of_batch = [path for path, part in module.named_modules() if _normalises_by_batch(part)]
        if of_batch or not torch.allclose(fewer, features[:-1], _TOLERANCE, _TOLERANCE):
            which = f" ({of_batch[0]})" if of_batch else ""
            problem = f"gives an example other features beside other examples{which}, also when it is evaluated"
            expected = "features of the example alone: BatchNorm with running statistics, GroupNorm or LayerNorm"
            raise self._error(problem, expected)
        # a softmax or its logarithm behind the head is left out: the loss takes it itself
        forms = (logits, logits.log_softmax(1), logits.softmax(1))
        if not any(torch.allclose(output, form, _TOLERANCE, _TOLERANCE) for form in forms):
            problem = f"returns something else than what its head {self._head_path} does"
            raise self._error(problem, "the head last", "name the last part of the module 'head'")
        return int(features.shape[1])

    def _check_repeatable(self) -> None:
        """Refuse a module that no run could repeat, and one that computes something else with its parameters named."""
        params, again, inputs = self.initial(0), self.initial(0), self._probe()
        if not all(torch.equal(value, again[name]) for name, value in params.items()):
            problem = "draws its first weights with another generator than torch's, which the seed does not reach"
            raise self._error(problem, "torch.nn.init, or a seed of its own")
        outputs = []
        for seed in (0, 1):
            with drawing(seed), torch.no_grad():
                outputs.append(self.extract(params, inputs, {}))
        changed = [self.names[name] for name, value in params.items() if not torch.equal(value, again[name])]
        if changed:  # as by nn.Embedding(max_norm=...): these are the server's
            raise self._error(f"changes its parameter {changed[0]} when it is called", "changes by gradients alone")
        if not torch.equal(*outputs):
            problem = "draws random numbers in training with torch's own generator, which a resumed run cannot repeat"
            expected = "nn.Dropout, nn.Dropout1d, 2d or 3d, or dropout in nn.MultiheadAttention, which are seeded here"
            raise self._error(problem, expected, drawing_layer(self._body(self._template)))
        with torch.no_grad():
            module, logits = self._built(0).eval(), self.logits(params, inputs)
            expected = module.get_submodule(self._head_path)(self._features(self._body(module).eval(), {}, inputs))
        if not torch.allclose(logits, expected, _TOLERANCE, _TOLERANCE):
            problem = "computes something else through torch.func.functional_call than when it is called"
            raise self._error(problem, "a module whose parameters and buffers are registered")

    def _check_buffers(self, module: nn.Module) -> None:
        """Refuse a module whose training changes a buffer that no run stores: clients would share it."""
        trial = copy.deepcopy(module).train()
        before = {name: value.clone() for name, value in trial.named_buffers()}
        with drawing(), torch.no_grad():
            self._run(trial, self._probe())
        after = dict(trial.named_buffers())
        stored = (*BUFFER_SUFFIXES, "num_batches_tracked")
        for name in (name for name in before if not name.endswith(stored)):
            if name in after and not torch.equal(before[name], after[name]):
                problem = f"changes its buffer {name} in training"
                raise self._error(problem, "no changes but those of BatchNorm's running statistics")

    def _error(self, problem: str, expected: str, action: str = "") -> OptionError:
        return OptionError("net", f"{self.name} {problem}", expected, action)


def _normalises_by_batch(part: nn.Module) -> bool:
    """Return whether a layer takes mean and variance of the batch, without running statistics for inference."""
    return isinstance(part, _BatchNorm) and part.running_mean is None


def _padded(inputs: Inputs) -> Inputs:
    """Return a batch with one more row, which does not count."""
    weight = torch.ones(len(inputs.examples) + 1)
    weight[-1] = 0.0
    rr = None if inputs.rr is None else torch.cat([inputs.rr, inputs.rr[:1]])
    return Inputs(torch.cat([inputs.examples, inputs.examples[:1]]), rr, weight)


def _on_meta(module: nn.Module) -> nn.Module:
    """Return a copy without values; parameters that layers share stay shared, as they do not with ``Module.to``."""
    module, moved = copy.deepcopy(module), dict[Tensor, Tensor]()
    for part in module.modules():
        for stored in (part._parameters, part._buffers):
            for name, value in stored.items():
                if value is not None and value not in moved:
                    empty = value.detach().to("meta")
                    moved[value] = nn.Parameter(empty, value.requires_grad) if stored is part._parameters else empty
                stored[name] = None if value is None else moved[value]  # type: ignore[assignment]
    return module


def _put(module: nn.Module, path: str, part: nn.Module) -> None:
    """Replace a submodule."""
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, part)
