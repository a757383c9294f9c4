"""What ``explain`` says of typical loops: the right sentence, on one screen."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import torsh_fx as tx
from torsh_fx.programs import CACHE


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    tx.clear_cache()


def read(n: int, rate: float = 2.0) -> float:
    return float((tx.ones(n) * rate).sum().item())


class TestSentences:
    def test_the_first_of_its_kind(self):
        with tx.explain() as report:
            read(3)
        (miss,) = report.misses
        assert "nothing like it was run before" in str(report)
        assert miss.whole
        assert miss.where.startswith(__file__)
        assert report.counts["misses"] == report.counts["programs run"] == 1

    def test_another_shape(self):
        read(3)
        with tx.explain() as report:
            read(5)
        assert "[5]" in str(report)
        assert "[3]" in str(report)
        assert "was known" in str(report)

    def test_another_op(self):
        x = tx.ones(3)
        tx.sin(tx.exp(x)).sum().item()
        with tx.explain() as report:
            tx.cos(tx.exp(x)).sum().item()
        why = str(report)
        assert "1 op alike" in why
        assert "cos" in why
        assert "sin" in why

    def test_another_number_is_no_miss(self):
        read(3)
        with tx.explain() as report:
            for k in range(5):
                read(3, 0.1 * k)
        assert report.misses == []
        assert report.counts == {"programs run": 5, "hits": 5, "misses": 0, "xla programs compiled": 0}

    def test_other_holders(self):
        x = tx.ones(3)
        tx.sin(tx.exp(x * 2.0)).sum().item()
        kept = []
        with tx.explain() as report:
            kept.append(tx.exp(x * 2.0))
            tx.sin(kept[0]).sum().item()
        assert "other results are held" in str(report)

    def test_a_value_needed_before_the_end(self):
        x = tx.ones(3)
        y = tx.sin(tx.exp(x * 2.0) + 1.0)
        y.sum().item()
        with tx.explain() as report:
            tx.exp(x * 2.0).tolist()
        assert "needed before its end" in str(report)

    def test_a_storm(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(CACHE, "credit", 0.0)
        x = tx.ones(3)

        def run() -> None:
            tx.sin(tx.cos(tx.sin(tx.cos(x)))).tolist()

        with tx.explain() as report:
            run()
        assert not report.misses[0].whole
        assert "op by op" in str(report)
        with tx.explain() as report:
            run()
        assert report.misses[0].whole
        assert "came back" in str(report)


class TestReport:
    def test_the_line_that_forced_each_run(self):
        with tx.explain() as report:
            for _ in range(3):
                read(3)
            w = tx.ones(2, requires_grad=True)
            (w * w).sum().backward()
        text = str(report)
        assert "3 x a read at " in text
        assert "1 x backward() at " in text
        assert text.count(__file__) >= 2

    def test_one_screen_however_much_there_was(self):
        with tx.explain() as report:
            for n in range(1, 40):
                read(n)
        text = str(report)
        assert len(text.splitlines()) <= 40
        assert max(map(len, text.splitlines())) <= 400
        assert "39 programs run" in text

    def test_nested_and_as_a_snapshot(self):
        before = tx.explain().counts["programs run"]
        with tx.explain() as outer:
            read(3)
            with tx.explain() as inner:
                read(3)
            read(3)
        read(3)
        assert outer.counts["programs run"] == 3
        assert inner.counts["programs run"] == 1
        assert sum(outer.lines.values()) == 3
        assert sum(inner.lines.values()) == 1
        assert tx.explain().counts["programs run"] - before == 4

    def test_a_block_that_raises_is_closed(self):
        def failing() -> None:
            with report:
                read(3)
                raise ZeroDivisionError

        report = tx.explain()
        with pytest.raises(ZeroDivisionError):
            failing()
        read(3)
        assert sum(report.lines.values()) == 1

    def test_seconds_and_a_failed_run(self):
        x = tx.tensor([1.0, 2.0])
        y = tx.gather(x, 0, tx.tensor([1]) + 4)
        with tx.explain() as report, pytest.raises(tx.OutOfRangeError):
            y.tolist()
        assert report.compile_seconds > 0
        assert len(report.misses) == 1
        assert str(report)

    def test_threads_print_while_others_run(self):
        errors: list[BaseException] = []

        def work(seed: int) -> None:
            rng = np.random.default_rng(seed)
            try:
                for _ in range(30):
                    with tx.explain() as report:
                        read(int(rng.integers(1, 6)))
                        assert str(report)
                    assert report.counts["programs run"] >= 1
            except BaseException as error:
                errors.append(error)

        with tx.explain() as all_of_it:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for t in threads:
                t.start()
            while any(t.is_alive() for t in threads):
                assert str(all_of_it)
            for t in threads:
                t.join()
        assert errors == []
        assert sum(all_of_it.lines.values()) == 120
