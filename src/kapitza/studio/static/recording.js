// Recordings of any length: the picture moves at once, sharper numbers follow. One chart per channel, one time axis.
import uPlot from "uplot";

const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const shades = { held: "rgba(230,159,0,0.20)", outside: "rgba(128,128,128,0.22)", gap: "rgba(213,94,0,0.25)" };
const number = (v) => (v === null || v === undefined ? "" : Number(v.toPrecision(6)).toString());

export default {
  template: `<div class="kz-recording" tabindex="0" role="application" :aria-label="label" :data-mode="mode"></div>`,
  props: { url: String, label: String, channels: Array, whole: Array, marks: Array, spans: Array, mode: String, store: String, tall: Number },
  mounted() {
    this.charts = [];
    const kept = JSON.parse(sessionStorage.getItem(this.store) || "null");
    this.range = kept && kept[0] < this.whole[1] && kept[1] > this.whole[0] ? kept : [...this.whole];
    this.$el.addEventListener("keydown", (event) => this.key(event));
    // A zoom that was kept is what is seen: what belongs to it, such as a simulated motion, begins there.
    if (this.range[0] !== this.whole[0] || this.range[1] !== this.whole[1]) this.tell();
    // Mounted in a hidden tab the width is 0: charts are made when there is one.
    this.sizes = new ResizeObserver(() => this.layout());
    this.sizes.observe(this.$el);
    this.theme = new MutationObserver(() => this.charts.forEach((chart) => chart.redraw(false, true)));
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  },
  unmounted() {
    this.sizes.disconnect();
    this.theme.disconnect();
    this.charts.forEach((chart) => chart.destroy());
    clearTimeout(this.timer);
  },
  watch: {
    marks() { this.charts.forEach((chart) => chart.redraw(false)); },
    spans() { this.charts.forEach((chart) => chart.redraw(false)); },
    url() { this.rebuild(); },
    channels(now, before) { if (JSON.stringify(now) !== JSON.stringify(before)) this.rebuild(); },
    whole(now, before) { if (now[0] !== before[0] || now[1] !== before[1]) { this.range = [...now]; this.tell(); this.rebuild(); } },
  },
  methods: {
    height() { return this.tall || Math.max(110, Math.min(240, Math.round(420 / Math.max(this.channels.length, 1)))); },
    layout() {
      const width = this.$el.clientWidth;
      if (width < 100) return; // hidden, or on its way
      if (!this.charts.length) this.build(width);
      else if (width !== this.width) this.charts.forEach((chart) => chart.setSize({ width, height: chart.height }));
      if (width !== this.width) { this.width = width; this.sharpen(); }
    },
    rebuild() {
      this.charts.forEach((chart) => chart.destroy());
      this.charts = [];
      this.$el.replaceChildren();
      this.width = 0;
      this.layout();
    },
    build(width) {
      this.channels.forEach((channel, row) => {
        const last = row === this.channels.length - 1;
        const head = document.createElement("div");
        head.className = "kz-channel";
        const title = document.createElement("span");
        title.textContent = channel.unit ? `${channel.name} [${channel.unit}]` : channel.name;
        const value = document.createElement("span");
        value.className = "kz-value";
        head.append(title, value);
        this.$el.append(head);
        const axis = { stroke: () => colour("--kz-note"), grid: { stroke: () => colour("--kz-line"), width: 1 }, ticks: { stroke: () => colour("--kz-line") }, font: "12px system-ui, sans-serif",
          // By itself a label has three decimals: 0, 0 and 0.001 for what is read in micrometres.
          values: (_, splits) => splits.map((at) => (at === null ? "" : String(+at.toPrecision(10)))) };
        const chart = new uPlot({
          width, height: this.height() + (last ? 26 : 0), legend: { show: false }, padding: [6, 10, last ? 0 : 4, 0],
          cursor: { sync: { key: this.store }, drag: { x: true, y: false, setScale: false }, points: { show: false } },
          scales: { x: { time: false, auto: false, min: this.range[0], max: this.range[1] } },
          axes: [{ ...axis, ...(last ? { label: "time [s]", labelSize: 18, labelFont: "12px system-ui, sans-serif", size: 30 } : { size: 0, values: () => [], ticks: { show: false } }) }, { ...axis, size: 64 }],
          series: [{}, { stroke: () => colour("--kz-accent"), width: 1, points: { show: (u) => u.data[0].length < u.width / 8, size: 4 } },
            { stroke: "#d55e00", width: 1.6, points: { show: false } }],
          hooks: {
            drawClear: [(u) => this.shade(u)], draw: [(u) => this.flag(u)],
            setSelect: [(u) => this.selected(u)], setCursor: [(u) => this.read(u, value)],
            ready: [(u) => {
              u.over.addEventListener("wheel", (event) => this.wheel(u, event), { passive: false });
              u.over.addEventListener("mousedown", (event) => { this.shift = event.shiftKey; this.$el.focus({ preventScroll: true }); });
            }],
          },
        }, [[], [], []], this.$el);
        this.charts.push(chart);
      });
    },
    show(begin, end) { this.move(begin, end); },
    move(begin, end) {
      const least = (this.whole[1] - this.whole[0]) * 1e-9, most = (this.whole[1] - this.whole[0]) * 1.1;
      const [first, last] = this.whole, width = Math.min(Math.max(end - begin, least), most), room = last - first - width;
      // Never past an end of the data; wider than all of it they stand in the middle.
      const start = room < 0 ? first + room / 2 : Math.min(Math.max((begin + end - width) / 2, first), first + room);
      this.range = [start, start + width];
      this.charts.forEach((chart) => chart.setScale("x", { min: this.range[0], max: this.range[1] }));
      sessionStorage.setItem(this.store, JSON.stringify(this.range));
      this.tell();
      this.sharpen();
    },
    tell() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.$emit("seen", { begin: this.range[0], end: this.range[1] }), 300);
    },
    zoom(factor, at = 0.5) {
      const [a, b] = this.range, centre = a + at * (b - a);
      this.move(centre - factor * (centre - a), centre + factor * (b - centre));
    },
    pan(share) { const width = this.range[1] - this.range[0]; this.move(this.range[0] + share * width, this.range[1] + share * width); },
    reset() { this.move(...this.whole); },
    wheel(u, event) {
      event.preventDefault();
      const box = u.over.getBoundingClientRect();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(Math.sign(event.deltaX || event.deltaY) * 0.1);
      else this.zoom(event.deltaY > 0 ? 1.35 : 1 / 1.35, (event.clientX - box.left) / box.width);
    },
    key(event) {
      const act = { "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
        Home: () => this.reset(), s: () => this.$emit("span", { begin: this.range[0], end: this.range[1] }) }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    },
    async sharpen() {
      // One request at a time; the last wish wins.
      if (this.busy) { this.again = true; return; }
      this.busy = true;
      try {
        do {
          this.again = false;
          const [begin, end] = this.range;
          const answer = await fetch(`${this.url}&begin=${begin}&end=${end}&width=${Math.max(Math.round(this.width || 800), 50)}`);
          if (!answer.ok) continue;
          this.take(new Float64Array(await answer.arrayBuffer()));
        } while (this.again);
      } catch (problem) {
        if (!(problem instanceof TypeError)) throw problem; // the server is gone; the page says so and comes back
      } finally {
        this.busy = false;
      }
    },
    take(numbers) {
      const [count, channels, reduced, overlay] = numbers;
      const row = (place) => Array.from(numbers.subarray(4 + place * count, 4 + (place + 1) * count), (v) => (Number.isNaN(v) ? null : v));
      const time = row(0);
      this.reduced = reduced === 1;
      this.charts.forEach((chart, at) => {
        if (at >= channels) return;
        chart.setData([time, row(1 + at), overlay ? row(1 + channels + at) : time.map(() => null)], false);
        chart.setScale("x", { min: this.range[0], max: this.range[1] });
      });
      this.$el.dataset.points = count;
      this.$el.dataset.drawn = (Number(this.$el.dataset.drawn) || 0) + 1;
      this.$el.dataset.range = JSON.stringify(this.range);
    },
    shade(u) {
      for (const span of this.spans || []) this.band(u, span.begin ?? -Infinity, span.end ?? Infinity, shades[span.kind]);
      for (const mark of this.marks || []) if (mark.kind === "gap") this.band(u, mark.begin, mark.end, shades.gap);
    },
    band(u, begin, end, fill) {
      const { left, top, width, height } = u.bbox;
      const a = Math.max(u.valToPos(Math.max(begin, this.range[0]), "x", true), left);
      const b = Math.min(u.valToPos(Math.min(end, this.range[1]), "x", true), left + width);
      if (b < a) return;
      u.ctx.fillStyle = fill;
      u.ctx.fillRect(a, top, Math.max(b - a, 1), height);
    },
    word(u, span) {
      // What a band is, inside it, where there is room.
      const { left, top, width } = u.bbox, ratio = devicePixelRatio || 1;
      const a = Math.max(u.valToPos(Math.max(span.begin ?? -Infinity, this.range[0]), "x", true), left);
      const b = Math.min(u.valToPos(Math.min(span.end ?? Infinity, this.range[1]), "x", true), left + width);
      u.ctx.save();
      u.ctx.font = `${12 * ratio}px system-ui, sans-serif`;
      u.ctx.fillStyle = colour("--kz-text");
      u.ctx.textAlign = "left";
      u.ctx.textBaseline = "top";
      const words = [span.text, span.text.split(",")[0]].find((text) => u.ctx.measureText(text).width + 8 * ratio < b - a);
      if (words) u.ctx.fillText(words, a + 4 * ratio, top + 3 * ratio);
      u.ctx.restore();
    },
    flag(u) {
      const { left, top, width, height } = u.bbox;
      if (u === this.charts[0] || !this.charts.length) for (const span of this.spans || []) this.word(u, span);
      for (const mark of this.marks || []) {
        const x = u.valToPos(mark.begin, "x", true);
        if (mark.kind === "gap" || x < left || x > left + width) continue;
        u.ctx.fillStyle = mark.kind === "segment" ? colour("--kz-note") : "#d7263d";
        if (mark.kind === "segment") u.ctx.fillRect(x, top, 1, height);
        else { u.ctx.beginPath(); u.ctx.moveTo(x - 5, top); u.ctx.lineTo(x + 5, top); u.ctx.lineTo(x, top + 9); u.ctx.fill(); }
      }
    },
    selected(u) {
      const { left, width } = u.select;
      const begin = u.posToVal(left, "x"), end = u.posToVal(left + width, "x");
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      if (width < 4) this.clicked(u, u.cursor.left);
      else if (this.mode === "span" || this.shift) this.$emit("span", { begin, end });
      else this.move(begin, end);
    },
    clicked(u, x) {
      const near = (this.marks || []).map((mark, index) => [Math.max(u.valToPos(mark.begin, "x") - x, x - u.valToPos(mark.end, "x"), 0), index]).sort((a, b) => a[0] - b[0])[0];
      if (near && near[0] < 8) this.$emit("mark", { index: near[1] });
    },
    read(u, value) {
      const at = u.cursor.idx;
      if (at === null || at === undefined || u.cursor.left < 0 || !u.data[0].length) { value.textContent = ""; return; }
      const series = u.data[1], pair = at % 2 ? [series[at - 1], series[at]] : [series[at], series[at + 1]];
      const seen = this.reduced && pair[0] !== null ? `${number(pair[0])} … ${number(pair[1])}` : number(series[at]);
      const model = u.data[2][at] === null || u.data[2][at] === undefined ? "" : `   model ${number(u.data[2][at])}`;
      value.textContent = `t = ${number(u.data[0][at])} s   ${seen}${model}`;
    },
  },
};
