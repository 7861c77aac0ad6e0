"""Explorer: an HTTP API and a web page for browsing an index with codes cut at any length.

    eigenmap serve photos.index

`explorer.Explorer` holds everything that a request needs. `app.create_app` adds the routes, `scheduling` limits
concurrency, `security` decides who may connect, `uploads` decodes pictures from untrusted clients, and `server`
listens.
"""
