"""Every picture, and the report: data in, matplotlib figures, SVG, PNG and one HTML page out.

`style` (colours, fonts, files), `curves` (quality against code length), `spectrum` (eigenvalues), `eigenfunctions`
(learned against true), `training` (loss and health), `gallery` (what a query finds), `report` (the page). Nothing here
trains or measures.
"""
