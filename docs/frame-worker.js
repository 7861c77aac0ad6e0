// Search without a server. Browsers refuse workers to pages that are opened as files, so the theme's search runs in a
// hidden frame instead. The interface is that of iframe-worker by Martin Donath (MIT), which the theme looks for.
(() => {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      // Runs in the frame: messages go to the page, and scripts are loaded one after the other.
      const prelude = () => {
        window.postMessage = (data) => parent.postMessage(data, "*");
        window.importScripts = (...urls) =>
          urls.reduce(
            (before, src) =>
              before.then(
                () =>
                  new Promise((loaded) => {
                    const script = Object.assign(document.createElement("script"), { src, onload: loaded });
                    document.body.appendChild(script);
                  }),
              ),
            Promise.resolve(),
          );
      };
      this.ready = new Promise((loaded) => {
        inside.document.open();
        inside.document.write(`<body><script>(${prelude})()<\/script><script src="${url}"><\/script></body>`);
        inside.document.close();
        this.frame.contentWindow.onload = loaded;
      });
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = FrameWorker;
  if (location.protocol === "file:") window.Worker = FrameWorker;
})();
