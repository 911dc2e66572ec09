// The search runs in a worker, which browsers refuse to pages opened from a disk. There, a hidden frame takes its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>postMessage = (data) => parent.dispatchEvent(new CustomEvent("${address}", { detail: data }))</script>
        <script src="${address}"></script>`;
      this.ready = new Promise((resolve) => { frame.onload = () => resolve(frame.contentWindow); });
      addEventListener(address, (event) => this.dispatchEvent(new MessageEvent("message", { data: event.detail })));
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
