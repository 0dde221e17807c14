"use strict";
/* Drawings of the labelling page: a beat and its neighbours, its group, thumbnails of labelled groups. Needs paper.js. */
const EcgPictures = (() => {
  const { tr, trn } = typeof EcgLanguage === "undefined" ? require("./language.js") : EcgLanguage;
  const BARE = { pulse: false, intervals: false, seconds: false };
  const SCALE = "25 mm/s, 10 mm/mV";
  const PX_PER_MM = 96 / 25.4;
  /** Median correlation from which the beats of a group are of one shape. */
  const SAME_SHAPE = 0.8;
  const byId = (id) => document.getElementById(id);
  const make = (name) => document.createElement(name);

  function of(data) {
    const thumbnails = new Map();
    const heights = new Map();
    const timeOf = (beat) => EcgPaper.clock(data.points[beat].time_s);

    function stripOf(strip, beats) {
      const leads = strip.leads.map((lead, i) => ({ name: data.leads[i], unit: "mV", ...lead }));
      return { fs: strip.fs, start_s: strip.start_s || 0, leads, beats, spans: (strip.spans || []).map((span) => ({ ...span, text: tr(span.text) })) };
    }

    /**
     * Return the height in mm that three of four drawings of a kind do not exceed. The scale rests on it, not on the
     * drawing at hand, so that it is the same for every question.
     */
    function usualHeight(kind, strips) {
      if (!heights.has(kind)) {
        const options = kind === "strips" ? {} : BARE;
        const all = strips().map((strip) => EcgPaper.sizeOf(strip, options).height).sort((a, b) => a - b);
        heights.set(kind, all[Math.floor(0.75 * (all.length - 1))]);
      }
      return heights.get(kind);
    }

    const allStrips = () => Object.values(data.strips).map((strip) => stripOf(strip, strip.beats.map((sample) => ({ sample, label: "" }))));
    const allAverages = () => Object.values(data.pictures).map(({ average }) => stripOf(average, []));

    function drawStrip(beat, label) {
      const strip = data.strips[beat];
      const beats = strip.beats.map((sample, i) =>
        i === strip.asked ? { sample, marked: true, label: label || "" } : { sample, label: "", quiet: true },
      );
      const host = byId("strip");
      EcgPaper.draw(host, stripOf(strip, beats), { name: tr("Beat at {time} and its neighbours", { time: timeOf(beat) }) });
      toSize();
    }

    /**
     * Fit the strip to its container, at 25 mm/s or more and mostly at most half the window high, at the same scale for
     * every strip of the page. A strip wider than its container is scrolled to the beat in question.
     */
    function toSize() {
      const host = byId("strip");
      const svg = host.firstElementChild;
      if (!svg) return;
      const { width } = svg.viewBox.baseVal;
      const high = usualHeight("strips", allStrips);
      const room = [host.clientWidth / (width * PX_PER_MM), (0.52 * window.innerHeight) / (high * PX_PER_MM)];
      const times = Math.min(Math.max(1, Math.min(...room)), 2);
      svg.style.width = `${(times * width * PX_PER_MM).toFixed(1)}px`;
      svg.style.height = "auto";
      const mark = host.querySelector(".paper-asked");
      const middle = (Number(mark.getAttribute("x")) + Number(mark.getAttribute("width")) / 2) / width;
      host.scrollLeft = middle * host.scrollWidth - host.clientWidth / 2;
      byId("strip-scale").textContent = times > 1.05 ? tr("{scale}, enlarged {times:.1f} times", { scale: SCALE, times }) : SCALE;
      reachable();
    }

    function drawGroup(group) {
      const { size, beat } = data.groups[group];
      const picture = data.pictures[group];
      for (const id of ["average-figure", "odd-figure"]) byId(id).hidden = !picture;
      if (!picture) return;
      const { average, odd, correlation } = picture;
      const values = { n: picture.averaged, size };
      const averaged = picture.averaged < size ? tr("Average of {n} of {size} beats", values) : tr("Average of {size} beats", values);
      byId("average-said").textContent = average.leads[0].low ? tr("{averaged}; the band holds the middle 80%", { averaged }) : averaged;
      const leads = average.leads.map((_, i) => ({ samples: picture.beat[i], overlays: odd.map((values) => values[i]) }));
      const strips = [stripOf(average, []), stripOf({ fs: average.fs, leads }, [])];
      const names = [tr("Average beat of the group"), tr("The beat at {time} over the least alike of the group", { time: timeOf(beat) })];
      drawSideBySide([byId("average"), byId("odd")], strips, names);
      byId("odd-said").textContent = `${trn("This beat (line) over the {n} least alike of its group (dashed).", "This beat (line) over the {n} least alike of its group (dashed).", odd.length)} ${likeness(correlation)}`;
    }

    /** Describe how alike the shapes of a group are, by the median correlation of its averaged beats with its own beat. */
    function likeness(correlation) {
      if (correlation >= SAME_SHAPE) return tr("Half of the averaged beats correlate with it at {value:.2f} or more.", { value: correlation });
      return tr("The shapes in this group differ: half of the averaged beats correlate with it at {value:.2f} or less. Split the group if its beats are not of one kind.", { value: correlation });
    }

    /**
     * Draw beats side by side at one common scale, the same for every group, as large as their containers and the window
     * allow; below the strip, where there is more horizontal space, leads are side by side.
     */
    function drawSideBySide(hosts, strips, names) {
      const beside = byId("strip").getBoundingClientRect().right < hosts[0].getBoundingClientRect().left;
      const high = beside ? Math.max(360, 0.55 * window.innerHeight) : 350;
      const across = !beside && hosts[0].clientWidth > 240;
      const drawings = hosts.flatMap((host, i) => {
        const parts = across ? strips[i].leads.map((lead) => ({ ...strips[i], leads: [lead] })) : [strips[i]];
        host.replaceChildren(...parts.map(() => make("div")));
        return parts.map((part, k) => ({
          svg: EcgPaper.draw(host.children[k], part, { ...BARE, name: names[i] }),
          room: host.clientWidth / parts.length - (across ? 8 : 0),
        }));
      });
      const limits = drawings.map(({ svg, room }) => room / svg.viewBox.baseVal.width);
      const usual = usualHeight("averages", allAverages) / (across ? data.leads.length : 1);
      const times = Math.min(2.4, Math.min(...limits, high / usual) / PX_PER_MM);
      for (const { svg } of drawings) {
        svg.style.width = `${(times * svg.viewBox.baseVal.width * PX_PER_MM).toFixed(1)}px`;
        svg.style.height = "auto";
      }
    }

    /** Make elements that overflow, and only these, focusable, so that they can be scrolled by keyboard. */
    function reachable() {
      for (const box of document.querySelectorAll(".paper")) {
        if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
        else box.removeAttribute("tabindex");
      }
    }

    function thumbnail(group) {
      if (!thumbnails.has(group)) {
        const host = make("div");
        host.className = "thumb";
        const picture = data.pictures[group];
        const strip = data.strips[data.groups[group].beat];
        const from = Math.max(0, Math.round(strip.beats[strip.asked] - 0.3 * strip.fs));
        const cut = (lead) => ({ samples: Array.from(EcgPaper.decode(lead.samples)).slice(from, from + Math.round(0.72 * strip.fs)) });
        const source = picture ? picture.average : { fs: strip.fs, leads: strip.leads.map(cut) };
        const options = { ...BARE, name: picture ? tr("Average beat") : tr("Beat") };
        EcgPaper.draw(host, stripOf({ ...source, leads: source.leads.slice(0, 1) }, []), options);
        thumbnails.set(group, host);
      }
      return thumbnails.get(group);
    }

    return { strip: drawStrip, group: drawGroup, toSize, thumbnail };
  }

  return { of };
})();
if (typeof module !== "undefined") module.exports = EcgPictures;
