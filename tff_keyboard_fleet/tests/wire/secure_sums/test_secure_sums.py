"""A whole secure sum: exact with dropouts at any step, uniform uploads, and rejected messages."""

import dataclasses
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.examples import examples
from tff_keyboard_fleet.tests.wire.secure_sums.secure_round import SETTINGS, Round
from tff_keyboard_fleet.wire.secure_sums.device import Device, add_pair_stream, own_stream
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.messages import (
    Advert,
    Question,
    Settings,
    sign_confirmation,
    sign_included,
)
from tff_keyboard_fleet.wire.secure_sums.server import Server


def reporting(count=10, **options):
    """Returns a round in which all devices are about to report."""
    actual = Round(count, **options)
    actual.advertise()
    actual.share()
    return actual


def asking(absent=1):
    """Returns a round after the questions. `absent` devices shared but did not report."""
    actual = reporting()
    actual.gone = sorted(actual.devices)[:absent]
    actual.report(actual.gone)
    return actual


@examples(30)
@given(
    lost=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    bits=st.sampled_from([16, 32, 64]),
    seed=st.integers(0, 1000),
)
def test_sum_is_exact_for_any_dropouts(lost, bits, seed):
    settings = dataclasses.replace(SETTINGS, bits=bits, degree=8, threshold=5)
    whole = Round(12, settings=settings, seed=seed)
    names = list(np.random.default_rng(seed).permutation(sorted(whole.devices)))
    first, second, third = ([names.pop() for _ in range(count)] for count in lost)
    whole.advertise()
    whole.share(absent=first)
    whole.report(absent=second)
    total = whole.unmask(absent=third)
    there = whole.devices.keys() - set(first) - set(second)
    assert whole.server.reported == there
    np.testing.assert_array_equal(total, whole.truth(there))


@pytest.mark.parametrize("size", [9, pytest.param(1_412_250, marks=pytest.mark.slow)])
def test_thirty_devices_of_which_nine_are_lost(size):
    settings = Settings(label=b"r", size=size, bits=32, degree=20, threshold=11)
    whole = reporting(30, settings=settings, min_devices=21)
    gone = list(whole.devices)[:9]
    start = time.process_time()
    whole.report(gone)
    device_seconds = (time.process_time() - start) / 21
    start = time.process_time()
    total = whole.unmask()
    print(f"{device_seconds:.2f} s a device, {time.process_time() - start:.1f} s to unmask")
    np.testing.assert_array_equal(total, whole.truth(list(whole.devices)[9:]))


def test_a_masked_upload_looks_uniform():
    """Chi-square test over bytes, and over the difference of two devices' uploads of zeros."""
    settings = dataclasses.replace(SETTINGS, size=50_000)
    whole = reporting(settings=settings)
    for name in whole.vectors:
        whole.vectors[name] = np.zeros(settings.size, np.int64)
    one, two = (whole.masked(name).masked for name in list(whole.devices)[:2])
    for words in (one, two, one - two):
        assert stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6
    plain = whole.vectors[next(iter(whole.devices))].astype("<u4").view(np.uint8)
    assert stats.chisquare(np.bincount(plain, minlength=256)).pvalue < 1e-6


def test_all_but_one_of_the_others_cannot_unmask_a_device():
    """Without the device's own secret, everything that the server can recover is still uniform."""
    whole = reporting(settings=dataclasses.replace(SETTINGS, size=50_000))
    name = next(iter(whole.devices))
    rest = whole.masked(name).masked - whole.truth([name])
    device = whole.devices[name]
    for other in device._received:
        advert = device._neighbours[other]
        add_pair_stream(rest, whole.settings, device._mask, advert.mask, name > other)
    np.testing.assert_array_equal(rest, own_stream(whole.settings, device._own_secret))
    assert stats.chisquare(np.bincount(rest.view(np.uint8), minlength=256)).pvalue > 1e-6


def test_a_server_gets_no_second_kind_of_share():
    whole = asking()
    whole.confirm()
    name, question = next((n, q) for n, q in whole.questions.items() if q.dropped)
    device = whole.devices[name]
    confirmed = device.confirm(question)
    assert device.confirm(question) == confirmed  # a lost answer is asked again
    answer = whole.reveal(name)
    assert whole.reveal(name) == answer
    assert answer.shares.keys() == question.reported.keys() | question.dropped
    moved = next(iter(question.dropped))
    signed = included(whole, moved, name)  # as if the one that dropped out had reported, late
    both = Question(reported={**question.reported, moved: signed}, dropped=question.dropped)
    other = dataclasses.replace(both, dropped=question.dropped - {moved})
    with pytest.raises(SecureSumError, match="named once"):
        device.confirm(both)
    with pytest.raises(SecureSumError, match="only once"):
        device.confirm(other)
    assert whole.reveal(name) == answer


def included(whole, sender, other):
    """Returns `sender`'s signature that its vector has the mask shared with `other`."""
    adverts = (whole.devices[each].advert for each in (sender, other))
    return sign_included(whole.keys[sender], whole.settings.context, *adverts)


def test_lists_that_do_not_fit_are_refused():
    whole = asking()
    name, question = next((n, q) for n, q in whole.questions.items() if not q.dropped)
    device = whole.devices[name]
    some = sorted(question.reported)
    signed = {x: included(whole, x, name) for x in [*some, name]} | {b"stranger": b""}
    for reported, dropped, message in (
        (some[1:], [], "named once"),
        ([*some, name], [], "named once"),
        ([*some, b"stranger"], [], "named once"),
        (some[:3], some[3:], "Too few neighbours reported: 3 of 4"),
    ):
        asked = Question(reported={x: signed[x] for x in reported}, dropped=frozenset(dropped))
        with pytest.raises(SecureSumError, match=message):
            device.confirm(asked)
    with pytest.raises(SecureSumError, match="named once"):
        whole.devices[whole.gone[0]].confirm(question)  # it has not reported


def test_a_pair_counts_as_reported_by_its_own_signature_alone():
    whole = asking()
    name, question = next((n, q) for n, q in whole.questions.items() if q.dropped)
    device, (dropped, *_) = whole.devices[name], question.dropped
    other = next(iter(question.reported))
    again = Device(SETTINGS, whole.keys[dropped])  # the same device, begun anew: fresh keys
    key, context = whole.keys[dropped], SETTINGS.context
    next_sum = dataclasses.replace(SETTINGS, label=b"run 2").context
    mine, his = device.advert, whole.devices[dropped].advert
    for signature in (
        b"",
        question.reported[other],
        sign_included(whole.keys[other], context, his, mine),  # by another device
        sign_included(key, context, mine, his),  # the other way round
        sign_included(key, context, again.advert, mine),
        sign_included(key, context, his, again.advert),
        sign_included(key, next_sum, his, mine),
        sign_confirmation(key, context, his, mine),
    ):
        asked = Question(
            reported=question.reported | {dropped: signature},
            dropped=question.dropped - {dropped},
        )
        with pytest.raises(SecureSumError, match="did not sign that it reported"):
            device.confirm(asked)
    assert device.confirm(question)


def test_shares_are_revealed_to_enough_confirmations_alone():
    whole = asking()
    name, question = next((n, q) for n, q in whole.questions.items() if not q.dropped)
    device = whole.devices[name]
    whole.confirm(absent=[name])
    signed = whole.server.confirmations(name)
    with pytest.raises(SecureSumError, match="confirmed that this device reported: 6 of 4"):
        device.unmask(signed)  # it has confirmed nothing itself
    device.confirm(question)
    few = dict(sorted(signed.items())[:3])
    (fourth, signature), *_ = signed.items() - few.items()
    stranger = next(
        iter(whole.devices.keys() - {x.device for x in whole.neighbours[name]} - {name})
    )
    context, advert = SETTINGS.context, device.advert
    wrong = (
        {fourth: signed[min(few)]},
        {fourth: sign_included(whole.keys[fourth], context, whole.devices[fourth].advert, advert)},
        {stranger: confirmation(whole, stranger, name)},
        {name: confirmation(whole, name, name)},
    )
    for more in ({}, *wrong):
        with pytest.raises(SecureSumError, match="confirmed that this device reported: 3 of 4"):
            device.unmask(few | more)
    assert device.unmask(few | {fourth: signature}) == device.unmask(signed)


def confirmation(whole, signer, about):
    adverts = (whole.devices[each].advert for each in (signer, about))
    return sign_confirmation(whole.keys[signer], SETTINGS.context, *adverts)


def test_the_server_takes_no_signature_that_others_would_refuse():
    whole = reporting()
    name, other = list(whole.devices)[:2]
    report, foreign = whole.masked(name), whole.masked(other)
    pair = next(iter(report.included))
    for signatures in (
        {pair: b"x" * 64},
        {pair: next(iter(foreign.included.values()))},
        {name: b"x" * 64},
    ):
        forged = dataclasses.replace(report, included=report.included | signatures)
        with pytest.raises(SecureSumError, match="needs a signature for each pair in its vector"):
            whole.server.report(forged)
    few = {x: report.included[x] for x in report.included if x != pair}
    with pytest.raises(SecureSumError, match="needs a signature for each pair in its vector"):
        whole.server.report(dataclasses.replace(report, included=few))
    whole.server.report(report)
    whole.server.report(foreign)
    whole.report(absent=[name, other])
    whole.confirm(absent=[name])
    confirmed = whole.devices[name].confirm(whole.questions[name])
    for signatures in ({pair: b"x" * 64}, {name: b""}):
        forged = dataclasses.replace(confirmed, signatures=confirmed.signatures | signatures)
        with pytest.raises(SecureSumError, match="needs a signature for each pair that reported"):
            whole.server.confirm(forged)
    np.testing.assert_array_equal(whole.unmask(), whole.truth(whole.devices))


def test_neighbours_that_are_not_devices_are_refused():
    whole = Round()
    whole.advertise()
    name, near = next(iter(whole.neighbours.items()))
    device = whole.devices[name]
    stranger = Device(dataclasses.replace(SETTINGS, label=b"run 2"), Ed25519PrivateKey.generate())
    forged = dataclasses.replace(near[0], mask=near[1].channel[::-1])
    for adverts, message in (
        (near[1:], "needs 6 neighbours"),
        ([near[1], *near[1:]], "all different"),
        ([device.advert, *near[1:]], "all different"),
        ([dataclasses.replace(near[0], mask=near[1].mask), *near[1:]], "all different"),
        ([forged, *near[1:]], "not signed"),
        ([stranger.advert, *near[1:]], "not signed"),  # an advert of another round
    ):
        with pytest.raises(SecureSumError, match=message):
            device.share(adverts)
    picky = Device(SETTINGS, Ed25519PrivateKey.generate(), lambda device: device != near[0].device)
    with pytest.raises(SecureSumError, match="known device"):
        picky.share(near)
    device.share(near)
    with pytest.raises(SecureSumError, match="asked again"):
        device.share(near)


@pytest.mark.parametrize(
    "copied",
    [("channel", "channel"), ("mask", "mask"), ("mask", "channel"), ("channel", "device")],
    ids="-".join,
)
def test_copied_keys_only_harm_the_sender(copied):
    key, of_victim = copied
    whole = Round(11)
    (hostile, mine), (_, victim) = list(whole.devices.items())[:2]
    context = whole.settings.context
    keys = {"channel": mine.advert.channel, "mask": mine.advert.mask}
    seen = Advert.signed(
        whole.keys[hostile], context, **keys | {key: getattr(victim.advert, of_victim)}
    )
    for name in whole.devices.keys() - {hostile}:
        whole.server.advertise(whole.devices[name].advert)
    twice = Advert.signed(whole.keys[hostile], context, **dict.fromkeys(keys, keys["mask"]))
    its_name = Advert.signed(whole.keys[hostile], context, **keys | {key: hostile})
    for advert in (seen, twice, its_name):
        with pytest.raises(SecureSumError, match="a duplicate key, or a key of another device"):
            whole.server.advertise(advert)
    whole.neighbours = whole.server.neighbours()
    whole.share(absent=[hostile])
    whole.report()
    np.testing.assert_array_equal(whole.unmask(), whole.truth(whole.devices.keys() - {hostile}))


def test_victims_name_as_a_key_only_harms_the_sender():
    whole = Round()
    hostile, victim = list(whole.devices)[:2]
    mine = whole.devices[hostile]
    mine.advert = Advert.signed(
        whole.keys[hostile], SETTINGS.context, channel=victim, mask=mine.advert.mask
    )
    whole.advertise()  # before the victim, whose Ed25519 key is known from an earlier sum
    whole.share(absent=[hostile])
    whole.report()
    np.testing.assert_array_equal(whole.unmask(), whole.truth(whole.devices.keys() - {hostile}))


@pytest.mark.parametrize(
    ("reported", "others", "are_silent", "is_false"),
    [
        (6, 2, False, False),
        (6, 3, False, True),
        (6, 3, True, False),
        (5, 1, False, False),
        (5, 2, False, True),
    ],
)
def test_dealers_that_too_many_leave_out_are_false(reported, others, are_silent, is_false):
    """A dealer is false if fewer than the threshold, 4, shares remain.

    Fewer or silent devices frame no one.
    """
    whole = asking()
    framed, _ = next((n, q) for n, q in whole.questions.items() if len(q.reported) == reported)
    whole.confirm()
    for position, name in enumerate(whole.questions[framed].reported):
        reveal = whole.reveal(name)
        if position < others:
            left = {} if are_silent else reveal.shares.keys() - {framed}
            reveal = dataclasses.replace(reveal, shares={x: reveal.shares[x] for x in left})
        whole.server.unmask(reveal)
    assert whole.server.false_dealers == ({framed} if is_false else set())


def test_envelopes_of_others_or_too_few_are_refused():
    whole = reporting()
    name = next(iter(whole.devices))
    device, mine = whole.devices[name], whole.envelopes[name]
    foreign = dataclasses.replace(mine[0], sender=name)
    for envelopes, message in (
        ([*mine, mine[0]], "one envelope from each"),
        ([*mine[1:], foreign], "from each neighbour"),
        (mine[:3], "Too few neighbours have shared: 3 of 4"),
    ):
        with pytest.raises(SecureSumError, match=message):
            device.report(envelopes, whole.vectors[name])
    for vector in (np.zeros(50), np.zeros(49, int)):
        with pytest.raises(ValueError, match="50 integers"):
            device.report(mine, vector)
    device.report(mine, whole.vectors[name])
    with pytest.raises(SecureSumError, match="asked again"):
        device.report(mine, whole.vectors[name])


def test_a_share_that_was_not_dealt_is_refused_and_the_sum_stands():
    whole = asking()
    whole.confirm()
    liar = next(iter(whole.questions))
    reveal = whole.reveal(liar)
    owner, share = next(iter(reveal.shares.items()))
    wrong = dataclasses.replace(reveal, shares={**reveal.shares, owner: share[::-1]})
    with pytest.raises(SecureSumError, match="differs from the one it received"):
        whole.server.unmask(wrong)
    stranger = dataclasses.replace(reveal, shares={b"stranger": share})
    with pytest.raises(SecureSumError, match="not its neighbour"):
        whole.server.unmask(stranger)
    np.testing.assert_array_equal(whole.unmask(absent=[liar]), whole.truth(whole.server.reported))


def test_envelopes_with_other_shares_are_left_out():
    whole = reporting()
    name = next(iter(whole.devices))
    bad = [dataclasses.replace(x, sealed=x.sealed[:-1] + b"x") for x in whole.envelopes[name][:1]]
    whole.envelopes[name] = [*bad, *whole.envelopes[name][1:]]
    whole.report()
    whole.confirm()
    reveal = whole.reveal(name)
    assert reveal.shares.keys() == whole.questions[name].reported.keys() - {bad[0].sender}
    np.testing.assert_array_equal(whole.unmask(), whole.truth(whole.devices))


def test_a_dealer_of_another_secret_is_named():
    whole = Round()
    whole.advertise()
    cheat = next(iter(whole.devices))
    whole.devices[cheat]._own_secret, kept = bytes(32), whole.devices[cheat]._own_secret
    for name, device in whole.devices.items():
        whole.server.share(device.share(whole.neighbours[name]))
    whole.devices[cheat]._own_secret = kept  # its mask is another than it dealt
    whole.server._shares[cheat] = dataclasses.replace(
        whole.server._shares[cheat], own_secret=bytes(32)
    )
    whole.envelopes = whole.server.envelopes()
    whole.report()
    with pytest.raises(
        SecureSumError, match=f"{cheat.hex()[:16]} shared a secret that does not match"
    ):
        whole.unmask()


def test_too_few_shares_give_no_sum():
    whole = asking()
    whole.confirm()
    for name in list(whole.questions)[6:]:
        whole.server.unmask(whole.reveal(name))
    assert not whole.server.can_sum
    with pytest.raises(SecureSumError, match="shares are available"):
        whole.server.sum()


def test_with_too_few_confirmations_a_device_waits():
    whole = reporting()
    whole.report()
    name, question = next(iter(whole.questions.items()))
    near = sorted(question.reported)
    whole.confirm(absent=near[:3])
    assert whole.server.confirmations(name) is None
    whole.server.confirm(whole.devices[near[0]].confirm(whole.questions[near[0]]))
    assert whole.server.confirmations(name).keys() == {near[0], *near[3:]}
    whole.confirm()
    assert whole.server.confirmations(name).keys() == set(near)


def test_server_rejects_late_repeated_or_malformed_messages():
    whole = reporting(min_devices=8)
    name, other = list(whole.devices)[:2]
    server, report = whole.server, whole.masked(name)
    with pytest.raises(SecureSumError, match="is at step 'report', not 'share'"):
        server.share(server._shares[name])
    for misshapen in (report.masked[1:], report.masked.astype(np.int64)):
        with pytest.raises(SecureSumError, match="needs 50 integers"):
            server.report(dataclasses.replace(report, masked=misshapen))
    server.report(report)
    with pytest.raises(SecureSumError, match="reported before"):
        server.report(report)
    with pytest.raises(SecureSumError, match="has not shared"):
        server.report(dataclasses.replace(report, device=b"stranger"))
    with pytest.raises(SecureSumError, match="needs 8 devices, got 1"):
        server.questions()
    whole.report(absent=[name])
    with pytest.raises(SecureSumError, match="is at step 'unmask', not 'report'"):
        server.report(dataclasses.replace(report, device=other))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"threshold": 3}, "<= `degree` = 6"),
        ({"threshold": 7}, "<= `degree` = 6, got 7"),
        ({"bits": 8}, r"`bits` must be one of \(16, 32, 64\), got 8"),
    ],
)
def test_settings_that_would_show_both_secrets_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SETTINGS, **change)


def test_a_sum_of_few_is_refused():
    with pytest.raises(ValueError, match="`min_devices` must be > 6, got 6"):
        Server(SETTINGS, min_devices=6)
