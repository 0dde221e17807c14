"""What a public host reads (.github, CITATION.cff, pre-commit), as far as it can be checked without one."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import ecgfed

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def loaded(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


#: What each file is held to: the schemas that check-jsonschema brings, of SchemaStore and of the citation format.
PUBLISHED = {
    **dict.fromkeys(WORKFLOWS, "github-workflows"),
    **dict.fromkeys(FORMS, "github-issue-forms"),
    ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml": "github-issue-config",
    ROOT / "CITATION.cff": "citation-file-format",
}


def published_faults(path: Path, schema: str) -> str:
    """Return what check-jsonschema finds wrong with a file, without a network; ``""`` for nothing."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_file_is_what_its_reader_published(path: Path) -> None:
    assert published_faults(path, PUBLISHED[path]) == ""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_bounded_and_trusts_little(path: Path) -> None:
    assert path.read_text("utf-8").startswith("# Not yet run")
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow[True]  # YAML 1.1 reads the key "on" as true
    for job in workflow["jobs"].values():
        weekly = job.get("if") == "github.event_name == 'schedule'"  # nobody waits for it
        assert 0 < job["timeout-minutes"] <= (180 if weekly else 90)
        assert re.fullmatch(r"(ubuntu|macos|windows)-[\d.]+|\$\{\{ matrix\.os \}\}", job["runs-on"])
        for step in job["steps"]:
            assert len({"run", "uses"} & set(step)) == 1
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step.get("uses", "a/b@v1"))


def test_a_workflow_asks_for_targets_that_there_are() -> None:
    said = "\n".join(path.read_text("utf-8") for path in WORKFLOWS)
    targets = set(re.findall(r"^([a-z-]+)(?= [a-z-]+:|:)", MAKEFILE, re.MULTILINE))
    asked = re.findall(r"run: make (?:LOCKED=1 )?([a-z]+)", said)
    assert sorted(asked) == ["docs", "slow", "test", "test"]  # before a release too
    assert set(asked) <= targets
    versions = loaded(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["bounds"]["strategy"]["matrix"]["versions"]
    assert set(versions) <= targets


def test_a_release_is_published_without_a_secret() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert "secrets." not in text
    assert loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["publish"]["permissions"] == {
        "id-token": "write"
    }
    (pattern,) = re.findall(r'grep -Fx "(.*)" ecgfed/__init__.py', text)
    wanted = pattern.replace("\\", "").replace("${GITHUB_REF_NAME#v}", "0.0.1")
    assert re.sub(r"\d+\.\d+\.\d+", "0.0.1", wanted) == wanted
    assert re.search(
        r'^__version__ = "\d+\.\d+\.\d+"$', (ROOT / "ecgfed" / "__init__.py").read_text("utf-8"), re.MULTILINE
    )
    assert PROJECT["version"] == ecgfed.__version__  # the tag is compared with one, the wheel has the other


def test_a_release_is_tried_on_the_oldest_and_newest_python_and_attested_before_it_is_published() -> None:
    jobs = loaded(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    rows = re.findall(r"^\| Python (3\.\d+) \|.*\| (.*) \|$", (ROOT / "docs/versions.md").read_text(), re.MULTILINE)
    tried = [version for version, here in rows if here != "not tried"]
    assert jobs["wheel"]["strategy"]["matrix"]["python"] == [tried[0], tried[-1]]
    assert PROJECT["requires-python"] == f">={tried[0]}"
    assert {"tests", "wheel", "attest"} <= set(jobs["publish"]["needs"])
    assert jobs["attest"]["permissions"] == {"id-token": "write", "attestations": "write"}
    attested = [step for step in jobs["attest"]["steps"] if "attest-" in step.get("uses", "")]
    assert [step["with"]["subject-path"] for step in attested] == ["dist/*", "dist/*"]
    (made,) = re.findall(r"--output-file (\S+)", str(jobs["attest"]))
    assert attested[1]["with"]["sbom-path"] == made.partition("\\n")[0]


def test_labels_of_links_have_no_comma() -> None:
    """Core metadata writes ``LABEL, URL``: readers, makers of an SBOM among them, split at the first comma."""
    assert not [label for label in PROJECT["urls"] if "," in label or len(label) > 32]


def test_pre_commit_runs_what_make_lint_runs() -> None:
    (repo,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"  # the very tools of the lock, nothing fetched
    hooks = {hook["entry"].replace(" --force-exclude", "").removeprefix(".venv/bin/") for hook in repo["hooks"]}
    recipe = re.findall(r"^\t\$\(BIN\)/(ruff .*|lint-imports.*|codespell .*|mypy .*)$", MAKEFILE, re.MULTILINE)
    plain = [line.removesuffix(" .").removesuffix(" $(SPELLED)") for line in recipe if "--fix" not in line]
    made = {line.replace(" --check", "") for line in plain}
    assert hooks == made


def test_the_citation_says_what_the_project_says() -> None:
    """https://github.com/citation-file-format/citation-file-format, version 1.2.0: what is required."""
    cited = loaded(ROOT / "CITATION.cff")
    assert cited["cff-version"] == "1.2.0"
    assert all(cited[field] for field in ("message", "title", "authors"))
    assert cited["license"] == PROJECT["license"]
    assert cited["version"] == ecgfed.__version__
    assert cited["references"][0]["url"] in PROJECT["urls"].values()
    for one in cited["references"]:
        assert all(one[field] for field in ("authors", "title", "type"))
    assert cited["references"][1]["doi"] == "10.1109/51.932724"  # of the article; that of the data is another
