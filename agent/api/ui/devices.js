// What device plugins offer, and who has it.

import { empty, h, replace, table } from './dom.js';
import * as f from './format.js';

export class Devices {
  constructor(root, model, { openPod }) {
    Object.assign(this, { root, model, openPod });
  }

  draw() {
    const { devices } = this.model;
    const key = JSON.stringify(devices);
    if (!devices || key === this.key) return;
    this.key = key;
    const { resources, removed, problems } = devices;
    if (!resources.length && !removed.length && !problems.length) {
      replace(this.root, empty('No device plugin has registered', 'In mode manage, devices appear here when a plugin offers them.'));
      return;
    }
    replace(this.root,
      problems.length ? h('ul.trouble', {}, problems.map((own) => h('li', {}, own))) : null,
      resources.map((own) => this.resource(own)),
      removed.length ? h('p.quiet', {}, `Removed: ${removed.map((own) => `${own.name} at ${f.moment(own.removed)}`).join(', ')}`) : null);
  }

  resource(own) {
    const away = own.awaySince ? h('p.trouble', {}, `Its plugin is away since ${f.moment(own.awaySince)}.`) : null;
    return h('article.block', {},
      h('h2', {}, own.name),
      h('p.quiet', {}, `${f.plural(own.capacity, 'device')}, ${own.allocatable ?? 'an unknown number'} healthy, ${own.allocated} with containers`), away,
      table(`Devices of ${own.name}`, [['Device'], ['Health'], ['NUMA'], ['Container']], own.devices.map((device) => ({
        cells: [device.id, h('span.state', { 'data-level': device.health === 'Healthy' ? null : 'bad' }, device.health), device.numa.join(', ') || f.UNKNOWN, this.owner(device.owner)],
      }))));
  }

  owner(owner) {
    if (!owner) return h('span.quiet', {}, 'free');
    const name = owner.name ? `${owner.namespace}/${owner.name} ${owner.container}` : `${owner.uid} ${owner.container}`;
    return h('button.name', { type: 'button', onclick: () => this.openPod(owner.uid) }, name);
  }
}
