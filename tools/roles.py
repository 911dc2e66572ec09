r"""Docstrings speak reStructuredText's roles, which Sphinx knows and editors show; this lets Markdown know them too.

``:math:`\alpha``` becomes MathML, which browsers draw without a script, as does ``$\alpha$`` in pages (GitHub's way);
``:func:`train``` and its like become links into the reference, where it has such a name.
"""

import re
from html import escape

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

ROLE = r":(math|func|class|meth|attr|mod|exc|data):`([^`]+)`"
DOLLARS = r"(?<![\\$\w])\$([^$\s](?:[^$\n]*[^$\s])?)\$(?![\w$])"


class _Role(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        *role, text = m.groups()
        if role in ([], ["math"]):
            html = convert(" ".join(text.split()))
        else:
            name = text.removeprefix("~").removeprefix("upweight.")
            html = f'<autoref identifier="upweight.{escape(name)}" optional><code>{escape(name)}</code></autoref>'
        return self.md.htmlStash.store(html), m.start(0), m.end(0)


class Roles(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Role(ROLE, md), "roles", 195)  # before backticks are code
        md.inlinePatterns.register(_Role(DOLLARS, md), "dollars", 185)  # after, and before backslashes are escapes


def makeExtension(**options: object) -> Roles:
    return Roles()
