// The panel with everything about one pod, one event or one decision. It follows the stream while it is open.

import { attribute, facts, h, level, meter, replace, table, text } from './dom.js';
import * as f from './format.js';
import { containerState, containers, stateOf } from './pods.js';
import { severity } from './timeline.js';

const TITLES = {
  oom: 'OOM kill', exit: 'Process ended', pod: 'Pod', agent: 'Agent', limitCorrected: 'Limit put back', hierarchy: 'Hierarchy', device: 'Access to a device', lost: 'Events lost',
};

export class Panel {
  constructor(model) {
    this.model = model;
    this.dialog = document.getElementById('panel');
    this.title = document.getElementById('panel-title');
    this.sub = document.getElementById('panel-sub');
    this.body = document.getElementById('panel-body');
    this.make = null;
    document.getElementById('panel-close').addEventListener('click', () => this.dialog.close());
    this.dialog.addEventListener('close', () => {
      this.make = null;
    });
    this.dialog.addEventListener('click', (event) => {
      // Beside the panel.
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  open(make) {
    this.make = make;
    this.key = null;
    this.draw();
    this.body.scrollTop = 0;
    if (!this.dialog.open) this.dialog.showModal();
  }

  draw() {
    if (!this.make) return;
    const { title, sub, level: alarm, key, body } = this.make();
    text(this.title, title);
    text(this.sub, sub);
    attribute(this.sub, 'data-level', alarm || null);
    // What is the same stays, with selection and scroll position.
    if (key !== this.key) {
      this.key = key;
      const { scrollTop } = this.body;
      replace(this.body, body());
      this.body.scrollTop = scrollTop;
    }
  }

  openPod(uid) {
    this.open(() => this.pod(uid));
  }

  pod(uid) {
    const item = this.model.byUid.get(uid);
    if (!item) return { title: 'Pod', sub: 'It is gone.', key: 'gone', body: () => [] };
    const { pod, group } = item;
    const now = stateOf(item);
    const events = this.model.events.filter((event) => event.pod?.uid === uid).slice(-30).reverse();
    const title = item.title;
    const key = JSON.stringify([item.pod, group, item.containers.map((own) => own.group), events.length]);
    const body = () => [
      facts([
        ['QoS class', item.qos],
        ['Priority', pod?.priority],
        ['Started', pod?.started && f.moment(pod.started)],
        ['Addresses', pod?.ips.join(', ')],
        ['Manifest', pod?.origin],
        ['Message', pod?.message],
        ['Resize', pod?.resize],
        ['Uid', uid],
        ['Cgroup', group?.path],
      ]),
      group && use(group, item),
      h('h3', {}, 'Containers'),
      containers(item).map((own) => container(own)),
      h('h3', {}, 'Events of the last hour'),
      events.length
        ? h('ul.log', {}, events.map((event) => h('li', {}, h('time', {}, f.clock(event.millis, true)), h('span.kind', { 'data-level': severity(event) || null }, event.type), h('span.line', {}, event.text))))
        : h('p.quiet', {}, 'None.'),
    ];
    return { title, sub: now.text, level: now.level, key, body };
  }

  openEvent(event) {
    this.open(() => ({ title: TITLES[event.type] ?? event.type, sub: f.moment(event.millis), level: severity(event), key: event.seq, body: () => this.event(event) }));
  }

  event(event) {
    const skip = new Set(['text', 'millis', 'seq', 'time', 'type', 'pod', 'cgroup', 'key']);
    const named = Object.entries(event).filter(([name, value]) => !skip.has(name) && value !== '' && typeof value !== 'object');
    const value = (name, own) => (/bytes$/i.test(name) ? f.bytes(own) : String(own));
    const known = event.pod && this.model.byUid.has(event.pod.uid);
    return [
      h('p.lead', {}, event.text),
      facts([
        ['Time', `${f.moment(event.millis)}.${String(event.millis % 1000).padStart(3, '0')}`],
        ['Pod', event.pod && [event.pod.namespace, event.pod.name || event.pod.uid].filter(Boolean).join('/')],
        ['Container', event.pod?.containerName || event.pod?.containerId?.slice(0, 12)],
        ['Cgroup', event.cgroup],
        ...named.map(([name, own]) => [label(name), value(name, own)]),
        ['Number', event.seq],
      ]),
      known && h('p', {}, h('button', { type: 'button', onclick: () => this.openPod(event.pod.uid) }, 'Show the pod')),
    ];
  }

  openDecision(number) {
    this.open(() => {
      const own = this.model.decisions.get(String(number));
      if (!own) return { title: 'Decision', sub: 'It is no longer kept.', key: 'gone', body: () => [] };
      return { title: `${own.kind[0].toUpperCase()}${own.kind.slice(1)} ${own.number}`, sub: own.would ? 'Only reported: nothing was done' : f.moment(Date.parse(own.time)), key: own.number, body: () => decision(own) };
    });
  }
}

const label = (name) => {
  const spaced = name.replace(/Bytes$/, '').replace(/([A-Z])/g, ' $1').toLowerCase();
  return spaced[0].toUpperCase() + spaced.slice(1);
};

function bar(title, value, limit, request, format) {
  const own = meter();
  const share = limit ? value / limit : null;
  own.set(share, limit && request != null ? request / limit : null, level(share));
  const of = limit ? `of ${format(limit)}` : 'no limit';
  const asked = request == null ? '' : `, requests ${format(request)}`;
  return h('div.use', {}, h('span.name', {}, title), h('span.figure', {}, format(value)), own.bar, h('span.quiet', {}, `${of}${asked}`));
}

function use(group, own) {
  const psi = [['CPU', group.psiCpu], ['memory', group.psiMemory], ['I/O', group.psiIo]].filter(([, n]) => n != null);
  return h('div.uses', {},
    bar('CPU', group.cpu, own.cpuLimit, own.cpuRequest, f.cores),
    bar('Memory', group.memoryBytes, own.memoryLimit, own.memoryRequest, f.bytes),
    facts([
      ['Waits for a CPU', group.wait == null ? null : `${f.percent(group.wait, 1)} of the time`],
      ['Throttled', group.throttledShare == null ? null : `${f.percent(group.throttledShare)} of the periods`],
      ['Disk', group.readRate == null ? null : `${f.rate(group.readRate)} read, ${f.rate(group.writeRate)} written`],
      ['Network', group.rxRate == null ? null : `${f.rate(group.rxRate)} in, ${f.rate(group.txRate)} out`],
      ['Threads', group.threads == null ? null : group.threadsMax ? `${f.count(group.threads)} of ${f.count(group.threadsMax)}` : f.count(group.threads)],
      ['OOM kills', group.kills || null],
      ['Pressure (10 s)', psi.length ? psi.map(([name, n]) => `${name} ${n.toFixed(1)} %`).join(', ') : null],
    ]));
}

function container(item) {
  const { own, group } = item;
  const now = own ? containerState(own) : { text: 'Running', level: '' };
  const last = own?.last;
  const oom = own?.oom ?? last?.oom;
  return h('article.container', {},
    h('header', {}, h('h4', {}, item.name), h('span.state', { 'data-level': now.level || null }, now.text)),
    facts([
      ['Image', own?.image ?? group?.image],
      ['Kind', own && own.kind !== 'container' ? own.kind : null],
      ['Running since', own?.state.since && f.moment(own.state.since)],
      ['Restarts', own?.restarts || null],
      ['Last end', last && `${last.reason || 'exit'} ${last.exitCode}${last.finished ? ` at ${f.moment(last.finished)}` : ''}`],
      ['OOM victim', oom && `${oom.command} (pid ${oom.pid})${oom.time ? ` at ${f.moment(oom.time)}` : ''}`],
      ['Waits', own?.state.is === 'waiting' ? own.state.message : null],
    ]),
    group && use(group, item),
    own?.probes.length ? table(`Probes of ${item.name}`, [['Probe'], ['Result'], ['In a row', true], ['Took', true], ['Failed', true]],
      own.probes.map((probe) => ({
        cells: [`${probe.type} (${probe.handler})`, h('span.state', { 'data-level': probe.result === 'failure' ? 'bad' : null }, probe.result || (probe.waitsFor ? `waits for ${probe.waitsFor}` : 'none yet')),
          `${probe.inARow} of ${probe.last?.outcome === 'failure' ? probe.failureThreshold : probe.successThreshold}`, probe.last ? f.duration(probe.last.tookMs) : f.UNKNOWN, f.count(probe.failed)],
      }))) : null);
}

const why = (one) => (one.spared ? `never evicted: ${one.spared}` : !one.request ? 'requests nothing' : one.usage > one.request ? 'above its request' : 'within its request');

/** Why: what was read, who was considered in which order, and what was done. */
export function decision(own) {
  const signal = own.signals.find((one) => one.passed) ?? own.signals[0];
  const unit = (n) => f.amount(signal?.signal ?? '', n);
  const rest = own.candidatesInAll - own.candidates.length;
  return [
    h('p.lead', {}, own.outcome),
    facts([['Time', f.moment(Date.parse(own.time))], ['Woken by', own.wokenBy], ['Done', own.would ? 'nothing: only reported' : null]]),
    h('h3', {}, 'What was read'),
    table('Readings', [['Signal'], ['Available', true], ['Threshold', true], ['Met']], own.signals.map((one) => ({
      cells: [`${one.signal} (${one.hard ? 'hard' : 'soft'})`, f.amount(one.signal, one.available), f.amount(one.signal, one.threshold),
        h('span.state', { 'data-level': one.passed ? 'bad' : null }, one.passed ? (one.passedForMs != null ? `for ${f.duration(one.passedForMs)}` : 'yes') : 'no')],
    }))),
    h('h3', {}, 'Candidates, in the order of eviction'),
    own.candidates.length ? table('Candidates', [['#', true], ['Pod'], ['Used', true], ['Request', true]], own.candidates.map((one, at) => ({
      attributes: { 'data-chosen': one.chosen || null },
      cells: [at + 1, [h('span.name', {}, `${one.namespace}/${one.name}`), h('span.why', {}, [one.chosen && h('strong', {}, 'chosen'), one.qos, `priority ${f.count(one.priority)}`, why(one)].filter(Boolean).flatMap((word, n) => (n ? [', ', word] : [word])))],
        unit(one.usage) + (one.incomplete ? ' or more' : ''), unit(one.request)],
    }))) : h('p.quiet', {}, 'None.'),
    rest > 0 && h('p.quiet', {}, `and ${f.plural(rest, 'more', 'more')}`),
    own.steps.length > 0 && [h('h3', {}, 'What was done'),
      table('Steps', [['Step'], ['After', true], ['Took', true], ['Result']], own.steps.map((one) => ({ cells: [one.what, f.duration(one.afterUs / 1000), f.duration(one.tookUs / 1000), one.result] })))],
  ];
}
