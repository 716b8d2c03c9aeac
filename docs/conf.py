"""The site: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``.

Pages link to their source in the repository, whose address is in pyproject.toml. Where the address
of the site is known, as on Read the Docs, it has a map, a picture for links, a menu of versions.
"""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

import site_tags  # noqa: E402
import versions  # noqa: E402

linkcode_resolve = site_tags.linkcode_resolve
repository = site_tags.REPOSITORY

project = "skcalib"
author = "The skcalib developers"
version = release = installed_version("skcalib")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_links",
    "chapters",
    "docstrings",
    "formulas",
    "gallery_pictures",
    "papers",
    "pictures",
    "question_tree",
    "repository_links",
    "site_tags",
    "spaces",
    "temperatures",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
templates_path = ["_templates"]

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "skcalib"
html_static_path = ["_static", "generated/static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["chapters.html"], "index": [], "search": [], "genindex": []}
html_favicon = "_static/logo.svg"
html_additional_pages = {"404": "404.html"}
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_theme_options = {
    "logo": {
        "text": "skcalib",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc", "edit"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "icon_links": [{"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}],
}
if html_baseurl:
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher", "navbar-icon-links"]
    html_theme_options["check_switcher"] = False
    html_theme_options["switcher"] = {
        "json_url": f"{versions.root(html_baseurl)}/latest/{versions.LIST}",
        "version_match": versions.current(html_baseurl, version),
    }

copybutton_selector = "div:not(.highlight-text):not(.sphx-glr-script-out) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4  # links to headings are those that a repository's own view makes

smartquotes = False  # they turn the quotes of default="auto" the wrong way
default_role = "literal"  # `name` in a docstring is code
autosummary_generate = True
autosummary_context = {"entries": site_tags.all_entries()}
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # types stand in the docstrings
numpydoc_show_class_members = False  # the template lists them

sphinx_gallery_conf = {
    "examples_dirs": [str(DOCS.parent / "examples")],
    "gallery_dirs": ["gallery"],
    # The example of training needs PyTorch, which the site's environment lacks: shown, not run.
    "filename_pattern": r"(?<!train_with_soft_calibration)\.py$",
    "within_subsection_order": "gallery_pictures.place",
    "image_scrapers": ("gallery_pictures.save_pictures",),
    "abort_on_example_error": True,
    "backreferences_dir": "generated/examples",
    "doc_module": ("skcalib",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}
