"""When credentials are asked for again, and how often at most."""

import datetime
import os

import pytest

from opkit.cluster.renewal import Keeper, Reading
from opkit.errors import CredentialsError

START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


class Login:
    """Something to log in by, with a clock: each of its readings gives what `gives` names."""

    def __init__(self):
        self.time, self.readings, self.gives = 0.0, 0, "token"
        self.files, self.is_cheap, self.lives, self.fails = (), False, None, None
        self.keeper = Keeper(self.read, first_pause=5.0, now=lambda: self.time, wall=self.wall)

    def wall(self):
        return START + datetime.timedelta(seconds=self.time)

    def read(self):
        self.readings += 1
        if self.fails:
            raise CredentialsError(self.fails)
        expiration = None if self.lives is None else self.wall() + datetime.timedelta(seconds=self.lives)
        value = f"{self.gives}-{self.readings}" if self.gives == "new" else self.gives
        return Reading((value,), self.files, self.is_cheap, expiration)


@pytest.fixture
def login():
    return Login()


def test_what_nobody_refuses_and_never_ends_is_read_once(login):
    """However often it is asked for."""
    login.keeper.start()
    login.time = 1e6
    assert login.keeper.renewed() == ("token",) and login.readings == 1


def test_what_expires_is_asked_for_when_the_time_has_come(login):
    """Not earlier, and again after each such time."""
    login.gives, login.lives = "new", 100
    login.keeper.start()
    for login.time, readings in ((99, 1), (100, 2), (199, 2), (200, 3)):
        login.keeper.renewed()
        assert login.readings == readings


@pytest.mark.parametrize("lives", [0, -60])
def test_what_has_expired_when_it_comes_is_used_until_it_is_refused(login, lives):
    """The clock of one of the two is wrong, or it comes from a cache."""
    login.lives = lives
    value = login.keeper.start()
    login.time = 1000
    assert login.keeper.renewed() is value and login.readings == 1
    login.gives = "other"
    assert login.keeper.after_refusal(value) == ("other",)


def test_a_stamp_without_a_zone_is_utc(login):
    """As kopf has it."""
    login.keeper = Keeper(lambda: Reading("t", expiration=datetime.datetime(2030, 1, 1, 0, 1)), now=lambda: login.time,
                          wall=login.wall)  # fmt: skip
    login.keeper.start()
    assert not login.keeper.is_due()
    login.time = 60
    assert login.keeper.is_due()


def test_a_file_that_changes_is_read_at_once(login, tmp_path):
    """And what did not change stays the very same object."""
    file = tmp_path / "token"
    file.write_text("one")
    login.files, login.is_cheap = (str(file),), True
    value = login.keeper.start()
    assert login.keeper.renewed() is value and login.readings == 1
    file.write_text("longer")
    login.gives = "other"
    assert login.keeper.renewed() == ("other",)
    assert login.keeper.renewed() == ("other",) and login.readings == 2


def test_a_file_that_is_replaced_by_one_that_looks_the_same_is_read(login, tmp_path):
    """Mounted volumes are switched by a link."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        os.utime(tmp_path / name / "token", (1, 1))
    (tmp_path / "now").symlink_to("one")
    login.files = (str(tmp_path / "now" / "token"),)
    login.keeper.start()
    (tmp_path / "now").unlink()
    (tmp_path / "now").symlink_to("two")
    assert login.keeper.is_due()


def test_a_certificate_that_changes_in_its_file_is_another_value(login, tmp_path):
    """Though its path is the same: sessions have to be made anew."""
    file = tmp_path / "certificate"
    file.write_text("one")
    login.files = (str(file),)
    value = login.keeper.start()
    file.write_text("another")
    renewed = login.keeper.renewed()
    assert renewed == value and renewed is not value
    assert login.readings == 2


@pytest.mark.parametrize("is_cheap, readings", [(True, 2), (False, 1)], ids=["files", "plugin"])
def test_files_are_read_each_minute_and_plugins_are_not_run(login, tmp_path, is_cheap, readings):
    """Some file systems tell no time of a change; a plugin may open a browser."""
    login.files, login.is_cheap = (str(tmp_path / "token"),), is_cheap
    login.keeper.start()
    login.time = 59
    login.keeper.renewed()
    assert login.readings == 1
    login.time = 60
    login.keeper.renewed()
    assert login.readings == readings


def test_a_renewal_that_fails_leaves_what_was_there(login, caplog):
    """It is told once, and tried again with pauses that grow."""
    login.lives = 100
    value = login.keeper.start()
    login.fails = "the plugin is broken"
    for login.time in range(100, 700):
        assert login.keeper.renewed() is value
    assert 5 <= login.readings <= 16
    assert caplog.text.count("the plugin is broken") == 1


@pytest.mark.parametrize("gives", ["token", "new"], ids=["same", "another"])
def test_while_all_is_refused_a_plugin_is_run_a_few_times_a_minute_at_most(login, gives):
    """Whether it gives another token each time or not; with pauses that grow."""
    login.gives = gives
    login.keeper.start()
    for login.time in range(60):
        for _ in range(20):
            login.keeper.after_refusal(login.keeper.value)
    assert 3 <= login.readings - 1 <= 5
    before = login.readings
    for login.time in range(600, 1200):
        login.keeper.after_refusal(login.keeper.value)
    assert 8 <= login.readings - before <= 11


def test_files_are_looked_at_each_second_while_all_is_refused(login):
    """A token that comes late is found soon."""
    login.is_cheap = True
    value = login.keeper.start()
    for login.time in range(60):
        login.keeper.after_refusal(value)
    login.gives = "other"
    login.time += 1
    assert login.keeper.after_refusal(value) == ("other",)


def test_a_file_that_changes_is_read_whatever_the_pause(login, tmp_path):
    """Nobody waits for a new token that is there already; nor is a file that is broken read all the time."""
    file = tmp_path / "token"
    login.files, login.is_cheap = (str(file),), True
    value = login.keeper.start()
    assert login.keeper.after_refusal(value) is None
    file.write_text("one")
    login.fails = "half of it is written"
    assert [login.keeper.renewed() for _ in range(9)] == [value] * 9 and login.readings == 3
    file.write_text("all of it")
    login.fails, login.gives = None, "other"
    assert login.keeper.renewed() == ("other",)


def test_what_helps_ends_the_pauses(login):
    """Tokens that live for seconds are replaced as often as that."""
    login.gives = "new"
    value = login.keeper.start()
    for login.time in range(0, 100, 2):
        newer = login.keeper.after_refusal(value)
        assert newer is not None and newer is not value
        login.keeper.helped(newer)
        value = newer


def test_who_comes_late_with_a_refusal_gets_what_is_there_already(login):
    """Many requests meet the same refusal: one login."""
    login.gives = "new"
    value = login.keeper.start()
    newer = login.keeper.after_refusal(value)
    assert [login.keeper.after_refusal(value) for _ in range(50)] == [newer] * 50 and login.readings == 2


def test_the_first_login_that_fails_is_an_error(login):
    """There is nothing to go on with."""
    login.fails = "no way"
    with pytest.raises(CredentialsError, match="no way"):
        login.keeper.start()
    with pytest.raises(CredentialsError):
        _ = login.keeper.value
