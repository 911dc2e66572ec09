"""The page as Python puts it together."""

import re
from pathlib import Path

import pytest

import upweight as uw
from support.datasets import random_dataset, with_returns
from upweight.explorer.page import _code


def test_it_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    page = uw.explore(random_dataset(labels=True), title="<Log> & co").save(tmp_path / "page.html").read_text()
    assert "<title>&lt;Log&gt; &amp; co</title>" in page
    assert "connect-src 'none'" in page
    assert not re.findall(r"https?://", page)
    assert not re.findall(r"^(import|export) ", page, re.MULTILINE)  # the modules became one script
    assert page.count("</script>") == 2


def test_in_a_notebook_it_is_a_frame() -> None:
    explorer = uw.explore(random_dataset())
    shown = explorer._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;') and "<script" not in shown
    assert repr(explorer) == "Explorer(source='dataset', episodes=12, steps=53)"


def test_code_to_copy(tmp_path: Path) -> None:
    path = tmp_path / "a log.npz"
    uw.save(random_dataset(), path)
    code = uw.explore(path, horizon=100, num_actions=None).code
    assert code["python"] == f'ds = uw.load("{path}", horizon=100)'
    assert code["command"] == f"upweight weights '{path}' --horizon 100"
    flagged = _code("log.parquet", {"format": "parquet", "observations": ["a", "b"]}, python="")["command"]
    assert flagged == "upweight weights log.parquet --input-format parquet --observations a,b"
    made = _code("cartpole-random", {"steps": 200, "seed": 3}, python="")["command"]
    assert made == "upweight make cartpole-random --steps 200 --seed 3 -o data.npz && upweight weights data.npz"
    assert uw.explore(random_dataset()).code == {"python": "# ds: your dataset", "command": "upweight weights DATA"}


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match="ends in .html"):
        uw.explore(random_dataset()).save(tmp_path / "page.txt")
    with pytest.raises(uw.DatasetError, match="horizon: options are for a path or a name, found Dataset"):
        uw.explore(random_dataset(), horizon=3)
    unrewarded = uw.Dataset.from_arrays(
        observations=[[1.0], [2.0]], actions=[[0.0], [0.0]], rewards=None, terminated=[False, True]
    )
    with pytest.raises(uw.DatasetError, match="no rewards"):
        uw.explore(unrewarded).html()


def test_curves_of_a_long_episode_are_thinned_out() -> None:
    explorer = uw.explore(with_returns([1.0, 7.0], lengths=[3, 5000]))
    curves = explorer._episode(1)
    assert len(curves["steps"]) == len(curves["rewards"]) == 1000
    assert curves["steps"][-1] == 4999 and curves["returns"][-1] == 7.0
    assert explorer._episode(0)["steps"] == [0, 1, 2]
