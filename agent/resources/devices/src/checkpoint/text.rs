//! The text that the checksum covers: Go values as `hash.DeepHashObject` prints them (`%#v` of go-spew with
//! sorted keys):
//! `(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)… …}]
//! RegisteredDevices:…}`. Strings are printed unquoted, bytes as decimal numbers, maps sorted by key (numbers
//! as numbers), nil as `<nil>`.

use nodewarden_model::fnv::Fnv32a;

/// Receives the text in pieces, so that it is hashed without being stored.
pub(super) trait Sink {
    fn put(&mut self, text: &[u8]);
}

impl Sink for Fnv32a {
    #[inline]
    fn put(&mut self, text: &[u8]) {
        Self::put(self, text);
    }
}

/// The values of one entry; `None` is Go's nil.
pub(super) struct Entry<'a, D> {
    pub pod: &'a str,
    pub container: &'a str,
    pub resource: &'a str,
    /// NUMA nodes in ascending order, with their device ids.
    pub devices: Option<D>,
    pub response: Option<&'a [u8]>,
}

/// Writes the whole text.
pub(super) fn put<'a, S, D, I, J>(
    sink: &mut S,
    entries: Option<impl Iterator<Item = Entry<'a, D>>>,
    registered: Option<impl Iterator<Item = (&'a str, Option<J>)>>,
) where
    S: Sink,
    D: Iterator<Item = (i64, Option<I>)>,
    I: Iterator<Item = &'a str>,
    J: Iterator<Item = &'a str>,
{
    begin(sink);
    match entries {
        None => sink.put(b"<nil>"),
        Some(entries) => {
            let mut count = 0;
            for one in entries {
                entry(sink, count, one);
                count += 1;
            }
            sink.put(if count == 0 { b"[]".as_slice() } else { b"]" });
        }
    }
    end(sink, registered);
}

/// Writes the text before the entries.
pub(super) fn begin(sink: &mut impl Sink) {
    sink.put(b"(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)");
}

/// Writes the text after the list of entries.
pub(super) fn end<'a, S, J>(sink: &mut S, registered: Option<impl Iterator<Item = (&'a str, Option<J>)>>)
where
    S: Sink,
    J: Iterator<Item = &'a str>,
{
    sink.put(b" RegisteredDevices:(map[string][]string)");
    list(sink, b"map[", registered, |sink, (name, ids)| {
        sink.put(name.as_bytes());
        sink.put(b":");
        strings(sink, ids);
    });
    sink.put(b"}");
}

/// Writes the entry at index `at`, with the separator before it.
pub(super) fn entry<'a, S, D, I>(sink: &mut S, at: usize, entry: Entry<'a, D>)
where
    S: Sink,
    D: Iterator<Item = (i64, Option<I>)>,
    I: Iterator<Item = &'a str>,
{
    sink.put(if at == 0 { b"[" } else { b" " });
    sink.put(b"{PodUID:(string)");
    sink.put(entry.pod.as_bytes());
    sink.put(b" ContainerName:(string)");
    sink.put(entry.container.as_bytes());
    sink.put(b" ResourceName:(string)");
    sink.put(entry.resource.as_bytes());
    sink.put(b" DeviceIDs:(checkpoint.DevicesPerNUMA)");
    list(sink, b"map[", entry.devices, |sink, (node, ids)| {
        sink.put(Decimal::of(node).text());
        sink.put(b":");
        strings(sink, ids);
    });
    sink.put(b" AllocResp:([]uint8)");
    list(sink, b"[", entry.response.map(<[u8]>::iter), |sink, &byte| sink.put(small(byte)));
    sink.put(b"}");
}

fn strings<'a, S: Sink>(sink: &mut S, ids: Option<impl Iterator<Item = &'a str>>) {
    list(sink, b"[", ids, |sink, id| sink.put(id.as_bytes()));
}

fn list<S: Sink, T>(
    sink: &mut S,
    open: &[u8],
    items: Option<impl Iterator<Item = T>>,
    mut each: impl FnMut(&mut S, T),
) {
    let Some(items) = items else { return sink.put(b"<nil>") };
    sink.put(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            sink.put(b" ");
        }
        each(sink, item);
    }
    sink.put(b"]");
}

/// The digits of a number, without an allocation.
pub(super) struct Decimal {
    digits: [u8; 20],
    from: usize,
}

impl Decimal {
    pub fn of(number: i64) -> Self {
        let (mut digits, mut from, mut rest) = ([0; 20], 20, number.unsigned_abs());
        loop {
            from -= 1;
            digits[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            from -= 1;
            digits[from] = b'-';
        }
        Self { digits, from }
    }

    pub fn text(&self) -> &[u8] {
        &self.digits[self.from..]
    }
}

/// The digits of every byte, right-aligned.
static BYTES: [[u8; 3]; 256] = {
    let mut table = [[0; 3]; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = [b'0' + (i / 100) as u8, b'0' + (i / 10 % 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    table
};

fn small(byte: u8) -> &'static [u8] {
    let unused = usize::from(byte < 100) + usize::from(byte < 10);
    &BYTES[usize::from(byte)][unused..]
}
