"""Every picture, and the report: data in, matplotlib figures, SVG, PNG and one HTML page out.

`style` (colours, fonts, files), `curves` (quality against code length), `scores` (the same from files), `spectrum`
(eigenvalues), `eigenfunctions` (learned against true), `training` (loss and health), `gallery` (grids of pictures),
`answers` (what a query finds), `excitation` (what features answer to), `study` (all of a run), `report` (blocks of a
page), `run_page` (the page about a run).
"""
