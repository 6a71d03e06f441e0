"""A program that takes the place of java and does what Ivy does: it copies the wanted jars from a folder beside it.

For a jar that the folder lacks it prints what Ivy would print. Started as anything but Ivy, it never serves.
"""

from __future__ import annotations

from pathlib import Path

from ackproof.kafka.distribution import jars

_PROGRAM = """import os, re, shutil, sys, time
argument = dict(zip(sys.argv, sys.argv[1:]))
here = os.path.dirname(os.path.abspath(__file__))
if "-ivy" not in argument:
    os.execvp("sleep", ["sleep", "3600"])
with open(f"{here}/calls", "a") as calls:
    calls.write("x\\n")
if os.path.exists(f"{here}/say"):
    sys.exit(open(f"{here}/say").read())
wanted = re.findall('org="([^"]+)" name="([^"]+)" rev="([^"]+)"', open(argument["-ivy"]).read())
target, cache = os.path.dirname(argument["-retrieve"]), argument["-cache"]
os.makedirs(target, exist_ok=True), os.makedirs(cache, exist_ok=True)
missing = False
for organisation, name, version in wanted:
    file = f"{name}-{version}.jar"
    time.sleep(EACH_S)
    while os.path.exists(f"{here}/hang"):
        time.sleep(0.02)
    if os.path.exists(f"{cache}/{file}"):
        shutil.copy(f"{cache}/{file}", target)
    elif os.path.exists(f"{here}/repository/{file}"):
        print(f"\\tfound {organisation}#{name};{version} in public", flush=True)
        shutil.copy(f"{here}/repository/{file}", cache)
        shutil.copy(f"{here}/repository/{file}", target)
        print(f"\\t[SUCCESSFUL ] {organisation}#{name};{version}!{name}.jar (1ms)", flush=True)
    else:
        missing = True
        print(f"\\t\\tmodule not found: {organisation}#{name};{version}")
sys.exit(missing)
"""


def fake_ivy(python: str, each_s: float = 0.0) -> str:
    """Return the program. With `each_s` it takes so many seconds for each jar."""
    return f"#!{python} -IS\n" + _PROGRAM.replace("EACH_S", str(each_s))


def publish(repository: Path, version: str) -> None:
    """Put the jars of a release into a repository."""
    repository.mkdir(parents=True)
    for module in jars._wanted(jars.Kafka(version, repository, jars.parse_release(version))):
        put(repository, f"{module.name}-{module.version}")


def put(repository: Path, name: str) -> None:
    (repository / f"{name}.jar").write_text(f"the bytes of {name}")
