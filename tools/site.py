"""The documentation as a site that needs no network: ``python -m tools.site``, or ``make docs``.

Pages keep the places they have in the repository, so that a link means the same here and there::

    build/pages/README.md, docs/, ...   the repository's own, and every file that they link to
    build/pages/live/                   the explorer of the demo's data, and its report
    build/pages/command_line.md         what every command says of itself
"""

import argparse
import contextlib
import io
import logging
import os
import re
import shutil
from pathlib import Path

import upweight as uw
from upweight.cli.main import COMMANDS, main as upweight

ROOT = Path(__file__).parents[1]
PAGES = (*ROOT.glob("*.md"), ROOT / "docs")
RESULTS = ROOT / "reproduction" / "results" / "demo_seed0.jsonl"
LAST_FOUND = "---\nsearch:\n  boost: 0.05\n---\n\n"  # it names everything, and is what nobody searches for
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def lay_out(pages: Path, data: uw.Dataset) -> None:
    """Everything that the site is built from."""
    shutil.rmtree(pages, ignore_errors=True)
    (pages / "live").mkdir(parents=True)
    for page in PAGES:
        (pages / page.name).symlink_to(page)
    (pages / "CHANGELOG.md").unlink()
    (pages / "CHANGELOG.md").write_text(LAST_FOUND + (ROOT / "CHANGELOG.md").read_text())
    for file in linked_files():
        (pages / file).parent.mkdir(parents=True, exist_ok=True)
        (pages / file).symlink_to(ROOT / file)
    (pages / "command_line.md").write_text("\n\n".join(["# Command line", *map(command_help, COMMANDS)]))
    uw.explore(data, title="The demo's data").save(pages / "live" / "explorer.html")
    uw.write_report(RESULTS, pages / "live" / "report.html", title="The demo")


def linked_files() -> set[Path]:
    """What pages link to that is no page: stored results, programs."""
    found: set[Path] = set()
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        targets = [(page.parent / target).resolve() for target in LINK.findall(page.read_text())]
        found |= {path.relative_to(ROOT) for path in targets if path.is_file() and path.is_relative_to(ROOT)}
    return {path for path in found if path.parts[0] != "docs" and path.suffix != ".md"}


def command_help(name: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        upweight([name, "--help"])
    return f"## upweight {name}\n\n```text\n{said.getvalue()}```"


def build(pages: Path, output: Path) -> None:
    """``mkdocs build --strict``: a link, an anchor or a name of the reference that leads nowhere is an error."""
    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # the theme's, of its own future
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(pages), site_dir=str(output), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build_site(config)
    config.plugins.on_shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "site", help="folder to write to (default: site)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    os.environ["COLUMNS"] = "82"  # of the commands' help
    demo = uw.read_experiment("demo").runs[0].data
    lay_out(ROOT / "build" / "pages", uw.make_dataset(demo.name, steps=demo.steps))
    build(ROOT / "build" / "pages", arguments.output)
    logging.info("open %s", arguments.output / "index.html")


if __name__ == "__main__":
    main()
