from upweight.base.names import closest, hint

KNOWN = ["bc", "iql", "td3_bc", "discrete_iql"]


def test_the_nearest_names_the_best_first() -> None:
    assert closest("discrete_iq", KNOWN, most=2) == ["discrete_iql"]
    assert closest("iqll", KNOWN) == ["iql"]
    assert closest("zzz", KNOWN, most=2) == []
    assert closest("IQl", KNOWN) == ["iql"] and closest("hopper-V5", ["Hopper-v5"]) == ["Hopper-v5"]


def test_a_hint_or_all_there_are() -> None:
    assert hint("iqll", KNOWN) == "did you mean 'iql'?"
    assert hint("hoper", ["hoppers", "hopper"], most=2) == "did you mean 'hopper' or 'hoppers'?"
    assert hint("zzz", iter(KNOWN)) == "known: bc, iql, td3_bc, discrete_iql"
    assert hint("zzz", KNOWN, otherwise="see --help") == "see --help"
