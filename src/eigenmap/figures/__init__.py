"""Figures and reports: from data to matplotlib figures, SVG, PNG and one HTML page.

`style` (colours, fonts, files), `curves` (quality by code length), `scores` (the same from files), `spectrum`
(eigenvalues), `eigenfunctions` (learned and true), `training` (loss and health), `gallery` (grids of pictures),
`answers` (query results), `excitation` (pictures that excite features), `study` (all figures of a run), `report` (page
elements), `run_page` (the report of a run).
"""
