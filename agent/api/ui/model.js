// What the agent has sent, and the rates that follow from two readings.

const EVENTS = 2000;
const HISTORY = 900;
/** Without a frame for this long the connection counts as broken. */
const SILENCE = 4000;

export class Model {
  constructor() {
    this.groups = new Map();
    this.pods = new Map();
    this.decisions = new Map();
    this.events = [];
    this.node = null;
    this.agent = null;
    this.pressure = null;
    this.devices = null;
    this.next = null;
    this.number = 0;
    this.readAt = null;
    this.history = { time: [], cpu: [], memory: [], psiCpu: [], psiMemory: [], psiIo: [] };
    this.items = [];
    this.byUid = new Map();
    this.byContainer = new Map();
  }

  frame(frame) {
    if (frame.full) this.begin();
    for (const name of ['node', 'agent', 'pressure', 'devices', 'next']) {
      if (name in frame) this[name] = frame[name];
    }
    this.apply(frame.pods, this.pods, (pod) => pod.uid);
    this.apply(frame.decisions, this.decisions, (decision) => String(decision.number));
    this.applyGroups(frame);
    this.number = frame.number;
    this.readAt = this.node?.time ?? null;
    this.join();
    this.remember();
  }

  begin() {
    this.pods.clear();
    this.decisions.clear();
    this.next = null;
  }

  apply(table, into, key) {
    for (const gone of table?.gone ?? []) into.delete(gone);
    for (const row of table?.set ?? []) into.set(key(row), row);
  }

  applyGroups({ full, groups, node, number }) {
    const elapsed = node && this.readAt ? (node.time - this.readAt) / 1000 : null;
    const sums = new Map();
    for (const gone of groups?.gone ?? []) this.groups.delete(gone);
    const updated = new Set();
    for (const row of groups?.set ?? []) {
      const old = this.groups.get(row.path);
      const before = old && old.created === row.created ? old : null;
      row.number = number;
      this.rates(row, before, elapsed);
      addUp(sums, row.path, row, before);
      this.groups.set(row.path, row);
      updated.add(row.path);
    }
    if (full) for (const path of this.groups.keys()) if (!updated.has(path)) this.groups.delete(path);
    for (const row of this.groups.values()) {
      if (!updated.has(row.path)) stand(row);
      const sum = sums.get(row.path);
      row.wait = elapsed ? (sum?.waitNs ?? 0) / 1e9 / elapsed : null;
      row.rxRate = elapsed ? (sum?.rx ?? 0) / elapsed : null;
      row.txRate = elapsed ? (sum?.tx ?? 0) / elapsed : null;
      row.kills = row.oomKillsBelow ?? 0;
    }
    this.countKills();
    this.knowsWait = [...this.groups.values()].some((row) => row.waitNs != null);
  }

  /** Rates of the cgroup's files, which have a time of reading of their own. */
  rates(row, before, elapsed) {
    // A row that was not sent again was as it is until the frame before this one.
    const from = before && (before.number === this.number ? before.read : this.readAt);
    const seconds = from && row.read > from ? (row.read - from) / 1000 : elapsed;
    const grown = (name) => (before && row[name] >= before[name] ? row[name] - before[name] : null);
    const per = (name, scale = 1) => {
      const n = grown(name);
      return n == null || !seconds ? null : n / scale / seconds;
    };
    row.cpu = per('cpuNs', 1e9);
    row.readRate = per('readBytes');
    row.writeRate = per('writeBytes');
    const periods = grown('periods');
    row.throttledShare = periods > 0 ? grown('throttled') / periods : periods === 0 ? 0 : null;
  }

  /**
   * The kernel programs count a victim in its own cgroup: those above have it too. The kernel's own count (cgroup v2) also has
   * the victims in cgroups that are gone, such as that of a container before its restart.
   */
  countKills() {
    const sums = new Map();
    let known = false;
    for (const row of this.groups.values()) {
      if (row.oomKills == null) continue;
      known = true;
      if (row.oomKills > 0) for (const path of upwards(row.path)) sums.set(path, (sums.get(path) ?? 0) + row.oomKills);
    }
    if (known) for (const row of this.groups.values()) row.kills = Math.max(sums.get(row.path) ?? 0, row.oomKillsBelow ?? 0);
  }

  /** Pods with their cgroups and containers: those that the agent runs, and those that only have a cgroup. */
  join() {
    this.byUid.clear();
    this.byContainer.clear();
    for (const row of this.groups.values()) {
      if (row.kind === 'pod') this.byUid.set(row.uid, { uid: row.uid, group: row, pod: null, containers: [] });
      else if (row.kind === 'container' || row.kind === 'sandbox') this.byContainer.set(row.id, row);
    }
    for (const pod of this.pods.values()) {
      const item = this.byUid.get(pod.uid) ?? { uid: pod.uid, group: null, containers: [] };
      item.pod = pod;
      this.byUid.set(pod.uid, item);
      item.containers = pod.containers.map((own) => ({ own, group: this.byContainer.get(own.id) ?? null, item }));
    }
    for (const row of this.byContainer.values()) {
      const item = this.byUid.get(row.uid);
      if (item && !item.pod && row.kind === 'container') item.containers.push({ own: null, group: row, item });
    }
    this.items = [...this.byUid.values()];
    for (const item of this.items) name(item);
  }

  remember() {
    const root = this.groups.get('/');
    if (!this.node || !root) return;
    const { psi, time } = this.node;
    const at = this.history;
    if (at.time.length && time / 1000 <= at.time[at.time.length - 1]) return;
    at.time.push(time / 1000);
    at.cpu.push(root.cpu ?? null);
    at.memory.push(root.memoryBytes ?? null);
    at.psiCpu.push(psi.cpu?.some10 ?? null);
    at.psiMemory.push(psi.memory?.some10 ?? null);
    at.psiIo.push(psi.io?.some10 ?? null);
    if (at.time.length > HISTORY) for (const list of Object.values(at)) list.shift();
  }

  /** Adds events that are not known yet; they come in order, but for those before a reconnection. */
  add(events) {
    const last = this.events.length ? this.events[this.events.length - 1].seq : 0;
    const fresh = events.filter((event) => event.seq > last);
    this.events.push(...fresh);
    if (this.events.length > EVENTS) this.events.splice(0, this.events.length - EVENTS);
    return fresh.length > 0;
  }

  root() {
    return this.groups.get('/') ?? null;
  }
}

function name(item) {
  const { pod, group } = item;
  item.namespace = pod?.namespace ?? group?.namespace ?? '';
  item.name = pod?.name || group?.pod || item.uid;
  item.title = item.namespace ? `${item.namespace}/${item.name}` : item.name;
  item.qos = pod?.qos ?? group?.qos ?? '';
  const sum = (field) => {
    const known = (pod?.containers ?? []).filter((own) => own.kind !== 'init' && own[field] != null);
    return known.length ? known.reduce((all, own) => all + own[field], 0) : null;
  };
  item.cpuRequest = sum('cpuRequest');
  item.memoryRequest = sum('memoryRequest');
  item.memoryLimit = group?.memoryLimit ?? null;
  item.cpuLimit = group?.cpuLimit ?? null;
  item.restarts = pod ? pod.containers.reduce((all, own) => all + own.restarts, 0) : null;
}

/** Nothing happened in it since the frame before. */
function stand(row) {
  const zero = (known) => (known == null ? null : 0);
  row.cpu = zero(row.cpuNs);
  row.readRate = zero(row.readBytes);
  row.writeRate = zero(row.writeBytes);
  row.throttledShare = zero(row.periods);
}

/** What the kernel programs counted: of each cgroup without those below it. */
function addUp(sums, path, row, before) {
  const grown = (field) => (before && row[field] >= before[field] ? row[field] - before[field] : 0);
  const [waitNs, rx, tx] = [grown('waitNs'), grown('rx'), grown('tx')];
  if (!waitNs && !rx && !tx) return;
  for (const above of upwards(path)) {
    const sum = sums.get(above) ?? { waitNs: 0, rx: 0, tx: 0 };
    sum.waitNs += waitNs;
    sum.rx += rx;
    sum.tx += tx;
    sums.set(above, sum);
  }
}

/** The path and those above it. */
export function* upwards(path) {
  while (path !== '/') {
    yield path;
    path = path.slice(0, path.lastIndexOf('/')) || '/';
  }
  yield '/';
}

/** Follows the agent's stream, and begins again when it breaks. */
export function follow(model, { onFrame, onEvents, onState }) {
  let source = null;
  let heard = Date.now();
  let retry = null;
  const open = () => {
    retry = null;
    source = new EventSource('stream');
    source.addEventListener('state', (message) => {
      heard = Date.now();
      onState('live');
      model.frame(JSON.parse(message.data));
      onFrame();
    });
    source.addEventListener('events', (message) => {
      if (model.add(JSON.parse(message.data))) onEvents();
    });
    source.addEventListener('error', () => {
      // The browser gives up when the answer is an error; it tries again itself when the connection breaks.
      if (source.readyState === EventSource.CLOSED && !retry) retry = setTimeout(open, 3000);
    });
  };
  setInterval(() => {
    if (Date.now() - heard > SILENCE) onState(model.number ? 'lost' : 'wait', heard);
  }, 1000);
  open();
}
