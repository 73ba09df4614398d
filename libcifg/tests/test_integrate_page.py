"""The programs in docs/phone/integrate.md print what the page shows."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.test_links import ROOT

PAGE = (ROOT / "docs" / "phone" / "integrate.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


def saved(name):
    """Returns a file that the page asks its reader to save."""
    return re.search(rf"Save this as `{name}`:\n\n```\w+\n(.*?)^```", PAGE, re.M | re.S).group(1)


def shown(command):
    """Returns the output that the page shows for a command."""
    lines = PAGE.split(f"    $ {command}\n")[1].splitlines()
    output = []
    while lines and lines[0].startswith("    "):
        output.append(lines.pop(0)[4:])
    return "\n".join(output) + "\n"


def run(folder, *command):
    environment = {**os.environ, "KEYBOARD": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the model and the programs of the page."""
    path = tmp_path_factory.mktemp("strip")
    for file in (ROOT / "models" / "base").glob("keyboard.*"):
        shutil.copy(file, path)
    for name in ("strip.py", "strip.c", "Main.kt"):
        (path / name).write_text(saved(name))
    return path


def test_python_with_litert(folder):
    pytest.importorskip("ai_edge_litert")
    assert run(folder, sys.executable, "strip.py") == shown("litert/bin/python strip.py")


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_c(folder):
    [build] = re.findall(r"^make .* libcifg\.so$", PAGE, re.MULTILINE)
    [compilation] = re.findall(r"^    \$ (gcc .*)$", PAGE, re.MULTILINE)
    run(folder, "sh", "-ec", f"{build}\n{compilation}")
    assert run(folder, "./strip") == shown("./strip")


@pytest.mark.skipif(not shutil.which("javac"), reason="no JDK")
def test_java(folder):
    """The calls of Main.kt, in Java: there need not be a compiler for Kotlin."""
    [commands] = re.findall(r"```sh\n(JAVA_HOME=.*?)```", PAGE, re.DOTALL)
    (folder / "Main.java").write_text(
        """
import java.nio.file.*;
import org.cifg.Cifg;
class Main {
  static byte[] file(String ending) throws Exception {
    return Files.readAllBytes(Path.of("keyboard" + ending));
  }
  static String words(Cifg keyboard, String text) {
    var words = new java.util.StringJoiner(", ");
    for (var each : keyboard.strip(text, 3)) words.add(each.word());
    return words.toString();
  }
  public static void main(String[] arguments) throws Exception {
    try (var keyboard = new Cifg(file(".tflite"), file(".vocabulary"), file(".json"),
                                 file(".ngram"), file(".tail"))) {
      System.out.println(words(keyboard, "See you t"));
      for (int i = 0; i < 2; ++i) keyboard.learn("See you at Zofia's");
      System.out.println(words(keyboard, "see you at z"));
      Files.write(Path.of("words.cache"), keyboard.cache());
    }
  }
}
"""
    )
    run(folder, "sh", "-ec", commands)
    run(folder, "javac", "-cp", "classes", "-d", "classes", "Main.java")
    found = run(folder, "java", "-Djava.library.path=.", "-cp", "classes", "Main")
    assert found == shown("java -Djava.library.path=. -cp classes:main.jar MainKt")
    shown_cache = (ROOT / "docs" / "phone" / "format.md").read_text().split('    {"floor"')[1]
    assert (
        pathlib.Path(folder / "words.cache")
        .read_text()
        .endswith(shown_cache.partition("\n")[0] + "\n")
    )
