import random

from storage.segment.tail_cache import TailCache


def pushed(cache: TailCache, *sizes: int) -> TailCache:
    for size in sizes:
        cache.push(bytes([cache.end % 251]) * size)
        cache.evict(cache.end)
    return cache


def test_the_oldest_chunks_go_and_the_newest_always_stays():
    cache = pushed(TailCache(0, 100), 60, 60)
    assert (cache.start, cache.end) == (60, 120)
    pushed(cache, 500)
    assert (cache.start, cache.end) == (120, 620)
    pushed(cache, 40)
    assert (cache.start, cache.end) == (620, 660)
    pushed(cache, 60)
    assert (cache.start, cache.end) == (620, 720)


def test_a_cap_of_nothing_keeps_the_newest_append():
    cache = pushed(TailCache(7, 0), 10, 20, 30)
    assert (cache.start, cache.end) == (37, 67)


def test_what_is_not_written_is_never_evicted():
    cache = TailCache(0, 100)
    for _ in range(5):
        cache.push(bytes(60))
        cache.evict(written=60)
    assert (cache.start, cache.end) == (60, 300)
    cache.evict(written=200)
    assert cache.start == 180
    cache.evict(written=300)
    assert cache.start == 240


def test_only_reads_wholly_inside_are_covered():
    cache = pushed(TailCache(100, 100), 60, 60)
    assert (cache.start, cache.end) == (160, 220)
    assert cache.covers(160, 220) and cache.covers(200, 200)
    assert not cache.covers(159, 170)
    assert not cache.covers(100, 220)
    assert not cache.covers(200, 221)


def test_truncation_inside_cuts_a_chunk_and_below_the_start_empties_the_window():
    cache = pushed(TailCache(0, 1000), 10, 10, 10)
    cache.truncate(15)
    assert (cache.start, cache.end, cache.read(0, 15)) == (0, 15, bytes(10) + bytes([10]) * 5)
    cache.truncate(10)
    assert (cache.start, cache.end, cache.read(0, 10)) == (0, 10, bytes(10))
    pushed(cache, 2000)
    assert cache.start == 10
    cache.truncate(10)
    assert (cache.start, cache.end) == (10, 10)
    pushed(cache, 5)
    cache.truncate(3)
    assert (cache.start, cache.end) == (3, 3)


def test_the_window_says_what_was_pushed():
    chance = random.Random(1)
    cache, model = TailCache(0, 300), bytearray()
    for _ in range(3000):
        if chance.random() < 0.05:
            del model[chance.randint(0, len(model)) :]
            cache.truncate(len(model))
        else:
            chunk = chance.randbytes(chance.randint(1, 40))
            model += chunk
            cache.push(chunk)
            cache.evict(cache.end)
        assert cache.end == len(model)
        assert cache.end - cache.start <= 300
        start = chance.randint(cache.start, cache.end)
        end = chance.randint(start, cache.end)
        assert cache.read(start, end) == model[start:end]
