// Joins the stream, the views and the keyboard.

import { attribute, text } from './dom.js';
import { clock } from './format.js';
import { Panel } from './detail.js';
import { Devices } from './devices.js';
import { follow, Model } from './model.js';
import { Overview } from './overview.js';
import { Pods } from './pods.js';
import { Timeline } from './timeline.js';
import { Tree } from './tree.js';

const $ = (id) => document.getElementById(id);
const model = new Model();
const panel = new Panel(model);
const open = { openPod: (uid) => panel.openPod(uid), openEvent: (event) => panel.openEvent(event) };
const views = {
  overview: new Overview($('view-overview'), model, open),
  pods: new Pods($('view-pods'), model, open),
  timeline: new Timeline($('view-timeline'), model, panel),
  cgroups: new Tree($('view-cgroups'), model, open),
  devices: new Devices($('view-devices'), model, open),
};
const names = Object.keys(views);
let current = null;

function show() {
  const asked = location.hash.slice(1);
  const name = asked in views ? asked : 'overview';
  if (name === current) return;
  current = name;
  for (const other of names) $(`view-${other}`).hidden = other !== name;
  for (const link of document.querySelectorAll('nav a')) attribute(link, 'aria-current', link.dataset.view === name ? 'page' : null);
  document.body.dataset.view = name;
  draw();
}

function draw() {
  if (document.hidden || !model.number) return;
  views[current].draw();
  panel.draw();
}

// Several messages at once are drawn once.
let asked = false;
function later() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

function onFrame() {
  const { node, agent } = model;
  text($('node-name'), node.name || 'nodewarden');
  document.title = `${node.name} – nodewarden`;
  text($('mode'), agent.mode);
  $('mode').hidden = false;
  later();
}

function onState(state, since) {
  attribute($('link'), 'data-state', state);
  attribute(document.body, 'data-link', state);
  text($('link-text'), { live: 'Live', wait: 'Connecting…', lost: 'Reconnecting…' }[state]);
  $('banner').hidden = state !== 'lost';
  if (state === 'lost') text($('banner'), `The agent does not answer. Shown is the node as of ${clock(since)}; this page tries again by itself.`);
}

addEventListener('hashchange', show);
document.addEventListener('visibilitychange', draw);
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || panel.dialog.open) return;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? '');
  if (typing && event.key === 'Escape') {
    document.activeElement.value = '';
    document.activeElement.dispatchEvent(new Event('input'));
    (document.querySelector('section:not([hidden]) .grid') ?? $('main')).focus();
  } else if (typing) return;
  else if (event.key >= '1' && event.key <= String(names.length)) location.hash = names[event.key - 1];
  else if (event.key === '/' && views[current].focusSearch) {
    event.preventDefault();
    views[current].focusSearch();
  }
});
show();
follow(model, { onFrame, onEvents: later, onState });
