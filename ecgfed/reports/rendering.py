"""Pages from the templates of this package.

Every value goes through ``page_text`` and is escaped, and a name that no value has is an error. The templates are the
package's own; none is read from anywhere else.
"""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ecgfed.base.language import current_language, number, tr, translated, trn
from ecgfed.base.text import count_of
from ecgfed.reports.headline import certain_first
from ecgfed.reports.markup import NOT_ASSESSED, clock, joined, page_text, per_cent, tr_html, tr_markup


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: (files("ecgfed.reports") / "templates" / name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=page_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clock"] = clock
    texts = (tr, trn, tr_html, tr_markup, translated, number, current_language)
    functions = (certain_first, count_of, joined, per_cent, *texts)
    environment.globals |= {function.__name__: function for function in functions}
    return environment


def render(template: str, **values: object) -> str:
    """Return the body of a page.

    Args:
        template: a file of ``templates``.
        values: what its names stand for.

    Raises:
        jinja2.UndefinedError: the template uses a name that has no value.
    """
    return _environment().get_template(template).render(not_assessed=translated(NOT_ASSESSED), **values)
