"""The server answers those who know the address, and nobody else."""

import json
from http.client import HTTPConnection

from support.datasets import random_dataset
from upweight.explorer.page import explore


def test_it_answers_its_own_address_only() -> None:
    ds = random_dataset()
    with explore(ds).serve() as server:
        host, port = server.server_address[:2]
        assert host == "127.0.0.1"
        token = server.address.split("/")[-2]
        assert len(token) >= 32

        def get(path: str, host: str = f"127.0.0.1:{port}") -> tuple[int, bytes]:
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            return answer.status, answer.read()

        status, page = get(f"/{token}/")
        assert status == 200 and b"connect-src 'self'" in page
        status, curves = get(f"/{token}/episode/2")
        assert status == 200
        assert len(json.loads(curves)["rewards"]) == ds.lengths[2]
        for path in (
            "/",
            "/wrong/",
            f"/{token[:-1]}/",
            f"/{token}/episode/12",
            f"/{token}/episode/-1",
            f"/{token}/../",
        ):
            assert get(path)[0] == 404, path
        assert get(f"/{token}/", host="evil.example")[0] == 404
    assert explore(ds).serve().address != server.address
