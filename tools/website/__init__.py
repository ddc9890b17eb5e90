"""The course as a static site: ``make site`` runs the lessons and writes ``build/site``, which any host can serve.

- `executed` runs the lessons; `recorder`, in their kernels, keeps what live views and questions answer.
- `pages` turns a lesson that ran, and the documents, into the sources of pages; `reference` writes those of the API.
- `build` puts all of it together, and Sphinx with `conf` makes the pages; `checks` reads the pages as a reader would.
"""
