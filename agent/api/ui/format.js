// Figures as text: the same units as the command line, with a fixed number of digits so that columns stay still.

export const UNKNOWN = '–';

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(n) {
  if (n == null) return UNKNOWN;
  let unit = 0;
  while (n >= 1024 && unit < BINARY.length - 1) { n /= 1024; unit++; }
  const digits = unit === 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
  return `${n.toFixed(digits)} ${BINARY[unit]}`;
}

export const rate = (n) => (n == null ? UNKNOWN : `${bytes(n)}/s`);

export function cores(n) {
  if (n == null) return UNKNOWN;
  return n >= 100 ? n.toFixed(0) : n.toFixed(2);
}

export function percent(share, digits = 0) {
  return share == null ? UNKNOWN : `${(share * 100).toFixed(digits)} %`;
}

export function count(n) {
  return n == null ? UNKNOWN : String(n).replace(/\B(?=(\d{3})+$)/g, '\u2009');
}

/** The amount of an eviction signal: bytes, or a number of inodes or processes. */
export function amount(signal, n) {
  return /inodes|pid/i.test(signal) ? count(n) : /^cpu/.test(signal) ? `${(n / 1000).toFixed(2)} cores` : bytes(n);
}

export function duration(ms) {
  if (ms == null) return UNKNOWN;
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const two = (n) => String(n).padStart(2, '0');

export function clock(ms, fine = false) {
  if (ms == null) return UNKNOWN;
  const d = new Date(ms);
  const base = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return fine ? `${base}.${String(d.getMilliseconds()).padStart(3, '0')}` : base;
}

export function moment(ms) {
  if (ms == null) return UNKNOWN;
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(ms)}`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
