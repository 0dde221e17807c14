"""A net of your own: any ``torch.nn.Module`` through ``torch.func.functional_call``.

Its head is the submodule ``head``, else its last ``nn.Linear`` with an output for each class; what goes into the head
are its features, and all that is before is the extractor. So methods that share or keep one of the two work with it.
Parameters are named as those of the nets here: ``extractor.*`` and ``head.*``, normalisation layers end with ``norm``,
and the head's last layer is ``head.out``. Running statistics of BatchNorm are parameters too; other buffers are
constants of the net.

A module holds the state of a call, so each thread has a copy of its own, without parameters (on the ``meta`` device).
"""

import copy
import threading
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.lazy import LazyModuleMixin

from ecgfed.base.errors import EcgfedError, OptionError
from ecgfed.core.nets.dropout import DROPOUTS, SeededDropout, dropout_key
from ecgfed.core.nets.layers import BUFFER_SUFFIXES, Params, mapped_over_clients
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.nets.net_source import NORMS, NetSource

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
        #: tensors that are no parameters, by their names in the module
        self.constants = {
            name: value.detach().clone()
            for name, value in module.named_buffers()
            if name not in self.names.values() and not name.endswith("num_batches_tracked")
        }
        self._template = copy.deepcopy(module).to("meta")
        super().__init__(spec, features, 0)
        self._check_random()

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
        like = next(iter(params.values()))
        values |= {name: value.to(like.device) for name, value in self.constants.items()}
        features = self._features(body, values, inputs)
        if stats is not None:
            stats.update({name: values[original].detach() for name, original in running.items()})
        return features

    def classify(self, params: Params, features: Tensor) -> Tensor:
        """Logits (B, classes) of features (B, features)."""
        within = f"{self._head_path}."
        values = {
            original.removeprefix(within): params[name]
            for name, original in self.names.items()
            if name.startswith("head.")
        }
        logits: Tensor = functional_call(self._copies().head, values, (features,))
        return logits

    def stacking_problem(self) -> str:
        norms = [path for path, part in self._template.named_modules() if isinstance(part, _NormBase)]
        if norms and any(name.endswith(BUFFER_SUFFIXES) for name in self.names):
            return f"its {norms[0]} has running statistics, which rows that pad a stack of clients would enter"
        params, inputs = self.initial(0), self._probe()

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

    def _built(self, seed: int) -> nn.Module:
        """Return the module, float32 on the CPU, as its class makes it after seeding."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = copy.deepcopy(self.source.create(self.spec.classes)).to("cpu", torch.float32)
            if any(isinstance(part, LazyModuleMixin) for part in module.modules()):
                self._run(module.eval(), self._probe())
        return module

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
            raise OptionError("net", reason, "a module that takes them", code="code-not-loaded") from problem
        return output

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
            if isinstance(part, DROPOUTS):
                _put(body, path, SeededDropout(part, number))
            if isinstance(part, _NormBase):
                part.num_batches_tracked = None
        return body

    def _find_head(self, module: nn.Module) -> str:
        """Return the path of the head, which ends with a linear layer; raises OptionError."""
        if not any(True for _ in module.parameters()):
            raise self._error("has no parameters", "a module that learns")
        linear = {path: part for path, part in module.named_modules() if isinstance(part, nn.Linear)}
        fitting = [path for path, part in linear.items() if part.out_features == self.spec.classes]
        own = isinstance(getattr(module, "head", None), nn.Module)
        head = "head" if own else (fitting or list(linear) or [""])[-1]
        layers = [part for part in module.get_submodule(head).modules() if not list(part.children())] if head else []
        last = layers[-1] if layers else None
        if not isinstance(last, nn.Linear) or last.bias is None or last.out_features != self.spec.classes:
            expected = f"a submodule 'head', or a last layer, that ends with nn.Linear(..., {self.spec.classes})"
            problem = "has no nn.Linear layer" if last is None else f"ends with {last}"
            raise self._error(problem, f"{expected} with a bias")
        if odd := [part for part in layers if isinstance(part, (*DROPOUTS, _NormBase))]:
            raise self._error(f"has {odd[0]} in its head", "none there", "move it before the head")
        return head

    def _names(self, module: nn.Module) -> dict[str, str]:
        """Return parameters and running statistics: the name here -> the module's own."""
        head, (*_, last) = self._head_path, module.get_submodule(self._head_path).named_modules()
        out = ".".join(part for part in (head, last[0]) if part)
        norms = {path for path, part in module.named_modules() if isinstance(part, NORMS)}
        names: dict[str, str] = {}
        running = (name for name, _ in module.named_buffers() if name.endswith(BUFFER_SUFFIXES))
        for original in [*(name for name, _ in module.named_parameters()), *running]:
            path, _, leaf = original.rpartition(".")
            if path == out:
                name = f"head.out.{leaf}"
            elif path == head or path.startswith(f"{head}."):
                name = f"head.{original.removeprefix(f'{head}.')}"
            else:
                ends = path in norms and not path.endswith("norm")
                name = ".".join(part for part in ("extractor", f"{path}_norm" if ends else path, leaf) if part)
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
        if not isinstance(output, Tensor) or output.shape != (_PROBE, classes):
            what = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
            raise self._error(
                f"returns {what} for {_PROBE} examples", f"logits ({_PROBE}, {classes}), one for each class"
            )
        # a softmax or its logarithm behind the head is left out: the loss takes it itself
        forms = (logits, logits.log_softmax(1), logits.softmax(1))
        if not any(torch.allclose(output, form, _TOLERANCE, _TOLERANCE) for form in forms):
            problem = f"returns something else than what its head {self._head_path} does"
            raise self._error(problem, "the head last", "name the last part of the module 'head'")
        return int(features.shape[1])

    def _check_random(self) -> None:
        """Refuse a module that draws from torch's own generator, which no run could repeat."""
        params, inputs, outputs = self.initial(0), self._probe(), []
        for seed in (0, 1):
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(seed)
                outputs.append(self.extract(params, inputs, {}))
        if not torch.equal(*outputs):
            problem = "draws random numbers in training with torch's own generator, which a resumed run cannot repeat"
            raise self._error(problem, "nn.Dropout, nn.Dropout1d, 2d or 3d, which are seeded here")

    def _error(self, problem: str, expected: str, action: str = "") -> OptionError:
        return OptionError("net", f"{self.name} {problem}", expected, action)


def _put(module: nn.Module, path: str, part: nn.Module) -> None:
    """Replace a submodule."""
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, part)
