// Browsers start no worker from a file. On a site that is read from its folder, the search runs in a frame of the page
// instead, which has the few names of a worker that the search uses.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><body></body>");
      inside.document.close();
      // Each side changes what it was sent: a worker's messages are copies.
      inside.postMessage = (data) => this.deliver(this, structuredClone(data));
      this.loaded = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.onload = resolve;
        script.onerror = () => this.onerror?.(new ErrorEvent("error"));
        script.src = new URL(address, location.href);
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.loaded.then(() => this.deliver(this.frame.contentWindow, copy));
    }

    deliver(to, data) {
      setTimeout(() => to?.onmessage?.({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
