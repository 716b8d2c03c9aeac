"""What is published agrees with the package: versions, addresses, dependencies, promises."""

import ast
import re
import runpy
import sys
import tomllib
from types import ModuleType, SimpleNamespace

from listing import ROOT

import skcalib

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]
REPOSITORY = PROJECT["urls"]["Repository"]
RECIPE = (ROOT / "conda" / "recipe.yaml").read_text()
CITE = (ROOT / "docs" / "cite.md").read_text()


def long_description(monkeypatch):
    """README as the package index shows it, from the hook of the build, without its builder."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = SimpleNamespace
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["ReadmeHook"](root=ROOT)
    metadata = {"urls": PROJECT["urls"]}
    hook.update(metadata)
    return metadata["readme"]["text"]


def test_the_version_is_the_same_everywhere():
    version = skcalib.__version__.removesuffix(".dev0")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n  version = {{{version}}},\n" in CITE
    assert f'\n  version: "{version}"\n' in RECIPE
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text()


def test_the_recipe_has_the_dependencies_of_the_package():
    run = re.findall(r"^    - (\S+) >=(.+)$", RECIPE.partition("  run:\n")[2], re.MULTILINE)
    asked = [("python", "${{ python_min }}")]
    assert run == asked + [tuple(text.split(">=")) for text in PROJECT["dependencies"]]


def test_the_recipe_and_the_citation_describe_the_package():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    (program, function), (builder,) = *PROJECT["scripts"].items(), BUILD["requires"]
    for line in (
        f"  name: {PROJECT['name']}",
        f'  python_min: "{oldest}"',
        "    - python ${{ python_min }}.*",
        f"    - {builder}",
        f"      - {program} = {function}",
        f"  license: {PROJECT['license']}",
        f"  license_file: {PROJECT['license-files'][0]}",
        f'  summary: "{PROJECT["description"]}"',
        f"  homepage: {REPOSITORY}",
        f"  repository: {REPOSITORY}",
        f"  documentation: {PROJECT['urls']['Documentation']}",
    ):
        assert f"\n{line}\n" in RECIPE
    archive = f"packages/source/s/{PROJECT['name']}/{PROJECT['name']}-${{{{ version }}}}.tar.gz"
    assert f"#   url: https://pypi.org/{archive}\n#   sha256:" in RECIPE
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    assert f'\nrepository-code: "{REPOSITORY}"\n' in citation


def test_bibtex_of_the_package_has_the_title_and_the_authors_of_its_citation():
    citation = (ROOT / "CITATION.cff").read_text()
    (title,), (author,) = (
        re.findall('^title: "(.*)"', citation, re.M),
        re.findall('name: "(.*)"', citation),
    )
    assert f"  title   = {{{title}}}," in CITE
    assert f"  author  = {{{{{author}}}}}," in CITE


def letters(text):
    return re.sub("[^a-z]", "", text.lower())


def test_there_is_bibtex_of_the_papers_of_all_calibrators():
    """With a key of author and year, and the title that a docstring has."""
    entries = re.findall(r"^@\w+\{(\w+),\n(.*?)^\}$", CITE, re.MULTILINE | re.DOTALL)
    keys = [key for key, _ in entries]
    papers = " ; ".join(getattr(skcalib, name)._paper for name in skcalib.calibrators.__all__)
    wanted = re.findall(r"([A-Z]\w+)(?:,| and | et al\.|)[^;\d]*(\d{4})", papers)
    assert {f"{author.lower()}{year}" for author, year in wanted} <= set(keys)
    modules = [*(ROOT / "skcalib").rglob("*.py")]
    cited = letters(" ".join(path.read_text(encoding="utf-8") for path in modules))
    for key, entry in entries:
        fields = dict(re.findall(r"^  (\w+) += \{(.*?)\},?$", entry, re.MULTILINE | re.DOTALL))
        assert {"author", "title", "year"} <= set(fields), key
        assert entry.count("{") == entry.count("}"), key
        if key != "skcalib":
            assert key.endswith(fields["year"]), key
            assert letters(fields["title"]) in cited, key


def test_only_files_that_other_programs_read_have_the_address_of_the_repository():
    """All other files read it from pyproject.toml."""
    parts = ("*", ".ci/*", ".github/**/*", "conda/*", "docs/*", "docs/_*/*", "skcalib/**/*.py",
             "examples/*.py", "benchmarks/**/*.py", "benchmarks/**/*.md")  # fmt: skip
    pages = [path for part in parts for path in ROOT.glob(part)]
    named = {
        path.name for path in pages if path.is_file() and REPOSITORY.encode() in path.read_bytes()
    }
    assert named == {"CITATION.cff", "pyproject.toml", "recipe.yaml"}


def test_the_addresses_of_the_project_are_pages_of_the_repository():
    assert list(PROJECT["urls"]) == ["Repository", "Documentation", "Changelog", "Issues"]
    assert PROJECT["urls"]["Issues"] == f"{REPOSITORY}/issues"
    for name in ("Documentation", "Changelog"):
        path = PROJECT["urls"][name].removeprefix(f"{REPOSITORY}/blob/HEAD/")
        assert (ROOT / path).is_file(), name


def test_a_date_in_the_changelog_adds_a_version_to_the_menu_of_the_site(tmp_path):
    versions = runpy.run_path(str(ROOT / "docs" / "_extensions" / "versions.py"))
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("## [0.2.0] - unreleased\n\n## [0.1.0] - 2026-12-01\n")
    for name in ("latest", "v0.1.0"):
        menu = versions["menu"](f"https://pages.example/en/{name}/", changelog)
        assert menu == [
            {"version": "latest", "url": "https://pages.example/en/latest/"},
            {"version": "v0.1.0", "url": "https://pages.example/en/v0.1.0/"},
        ]
        assert versions["current"](f"https://pages.example/en/{name}/", "0.1.0") == name


def test_readme_has_no_relative_link_on_the_package_index(monkeypatch):
    text = re.sub(
        r"^```.*?^```$", "", long_description(monkeypatch), flags=re.MULTILINE | re.DOTALL
    )
    links = re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', text)
    assert len(links) > 20
    for link in ("".join(pair) for pair in links):
        assert link.startswith("https://"), link
        if link.startswith(REPOSITORY):
            path = re.sub(rf"^{REPOSITORY}/(blob|raw)/HEAD/|#.*$", "", link)
            assert (ROOT / path).exists(), link


def test_the_workflows_run_what_is_there():
    """Files, folders and extras that they name; the built site is made there."""
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    text = "".join(path.read_text() for path in workflows)
    named = set(re.findall(r"(?:\.ci|\.github|tests|docs)/[\w./-]+", text)) - {"docs/_build/html"}
    extras = {name for names in re.findall(r'"\.\[(.+)\]"', text) for name in names.split(",")}
    assert extras == {"test", "docs"} <= set(PROJECT["optional-dependencies"])
    assert len(named) > 8
    for name in named:
        assert (ROOT / name).exists(), name


def test_actions_are_pinned_by_commit():
    """With the version as a comment, which dependabot updates; no step keeps the token."""
    pinned = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        for action in re.findall(r"^ *- uses: (.*)$", text, re.MULTILINE):
            assert pinned.fullmatch(action), (path.name, action)
        checkouts = re.findall(r"^( *)- uses: actions/checkout@.*\n(.*\n.*)\n", text, re.MULTILINE)
        assert len(checkouts) == text.count("actions/checkout@")
        for indent, options in checkouts:
            assert options == f"{indent}  with:\n{indent}    persist-credentials: false"


def test_every_python_of_the_classifiers_is_tested():
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: 3." in text]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert f"python: {named}".replace("'", '"') in workflow
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_package_opens_no_connection_and_runs_no_program():
    """As SECURITY.md says: no module for it or for temporary files, and no text is evaluated."""
    refused = {"socket", "ssl", "urllib", "http", "requests", "subprocess", "ctypes", "tempfile"}
    for path in (ROOT / "skcalib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.partition(".")[0] for name in names} & refused, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
