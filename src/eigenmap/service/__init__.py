"""The explorer: an HTTP API and a page for looking at an index, cut at any length.

    eigenmap serve photos.index

Everything a request needs is in `explorer.Explorer`; `app.create_app` puts routes in front of it, `scheduling` bounds
what runs at once, `security` decides who may ask, `uploads` reads pictures from strangers, `server` listens.
"""
