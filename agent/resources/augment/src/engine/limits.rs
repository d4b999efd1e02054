//! Limits that changed although the pod's spec did not, and who wrote them: pure.

use std::collections::BTreeMap;
use std::time::Duration;

use nodewarden_machine::page::page_bytes;
use nodewarden_model::{LimitWrite, Writer};

use super::limit_text::sets;

/// A limit of a cgroup now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The cgroup's path.
    pub cgroup: String,
    /// The uid of its pod.
    pub pod: String,
    /// The container; empty for the pod's own cgroup.
    pub container: String,
    /// The file.
    pub file: &'static str,
    /// Which cgroup of that path.
    pub identity: u64,
    /// Its value; `None` for no limit.
    pub value: Option<u64>,
    /// What the spec says it should be: `Some(None)` for no limit, `None` where that cannot be said.
    pub by_spec: Option<Option<u64>>,
    /// What the spec says of resources, as one number.
    pub spec: u64,
    /// The cgroup may not have got its limits yet.
    pub is_new: bool,
}

/// A limit that another program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// As it is now.
    pub now: Limit,
    /// What it was.
    pub before: Option<u64>,
    /// Who wrote it; `None` where that was not seen.
    pub writer: Option<Writer>,
}

impl Changed {
    /// A sentence.
    pub fn message(&self) -> String {
        let Self { now, before, writer } = self;
        let shown = |value: Option<u64>| value.map_or("no limit".to_owned(), |value| value.to_string());
        let by = writer.as_ref().map(|writer| format!(", written by {}", writer.describe()));
        format!(
            "{} of {} was {} and is {} now{}, although the pod's spec has not changed",
            now.file,
            now.cgroup,
            shown(*before),
            shown(now.value),
            by.unwrap_or_default()
        )
    }
}

/// How often limits are read although no write was seen: a record of one may be lost.
const UNSEEN: Duration = Duration::from_secs(60);

/// The limits as they were read last.
#[derive(Debug, Clone, Default)]
pub struct LimitWatch {
    /// When they were.
    read: Option<Duration>,
    known: BTreeMap<(String, &'static str), Limit>,
    /// The writes that were seen before the last reading, oldest first: one of them may have come just after
    /// it.
    writes: Vec<LimitWrite>,
}

impl LimitWatch {
    /// Whether a reading of all limits is needed at this moment. `writes`: those since the last reading;
    /// `None` where they are not seen.
    pub fn is_due(&self, now: Duration, writes: Option<&[LimitWrite]>) -> bool {
        let is_late = self.read.is_none_or(|read| now.saturating_sub(read) >= UNSEEN);
        // Of a cgroup that was new a reading is needed from which changes count.
        let is_settling = || self.known.values().any(|limit| limit.is_new);
        writes.is_none_or(|writes| !writes.is_empty()) || is_late || is_settling()
    }

    /// Takes a reading of all limits at this moment; returns those that changed without the spec. A kubelet
    /// that resizes a pod sets what the spec says, which may be long after the spec was changed. `writes`:
    /// those since the last call, oldest first.
    pub fn update(&mut self, at: Duration, now: Vec<Limit>, writes: Vec<LimitWrite>) -> Vec<Changed> {
        self.read = Some(at);
        let recent: Vec<LimitWrite> = std::mem::replace(&mut self.writes, writes.clone());
        let recent = || recent.iter().chain(&writes);
        let before = std::mem::take(&mut self.known);
        let mut changed = Vec::new();
        for limit in now {
            let key = (limit.cgroup.clone(), limit.file);
            if let Some(before) = before.get(&key).filter(|before| is_drift(before, &limit)) {
                let writer = writer(recent(), &limit);
                changed.push(Changed { now: limit.clone(), before: before.value, writer });
            }
            self.known.insert(key, limit);
        }
        changed
    }
}

/// Who wrote this value last. A write of another value is none of it: the kernel refused it, or it was
/// overwritten.
fn writer<'a>(writes: impl DoubleEndedIterator<Item = &'a LimitWrite>, now: &Limit) -> Option<Writer> {
    let is_it = |write: &&LimitWrite| {
        (write.cgroup, write.file) == (now.identity, now.file)
            && sets(&write.text, now.file, now.value, page_bytes())
    };
    writes.rev().find(is_it).map(|write| write.writer.clone())
}

fn is_drift(before: &Limit, now: &Limit) -> bool {
    let same = before.identity == now.identity && before.spec == now.spec && !before.is_new;
    let wanted = now.by_spec.is_some_and(|by_spec| by_spec == now.value);
    same && before.value != now.value && !wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn limit(value: Option<u64>) -> Limit {
        Limit {
            cgroup: "/kubepods/podu/c".into(),
            pod: "u".into(),
            container: "web".into(),
            file: "memory.max",
            identity: 7,
            value,
            by_spec: Some(Some(100)),
            spec: 1,
            is_new: false,
        }
    }

    #[test]
    fn only_what_neither_the_spec_nor_a_new_cgroup_explains_is_a_change_by_others() {
        let of = |before: Limit, now: Limit| {
            let mut watch = LimitWatch::default();
            assert_eq!(watch.update(NOW, vec![before], Vec::new()), []);
            watch.update(NOW, vec![now], Vec::new()).len()
        };
        let own = || limit(Some(100));
        assert_eq!(of(own(), own()), 0);
        assert_eq!(of(own(), limit(Some(200))), 1);
        assert_eq!(of(own(), limit(None)), 1);
        assert_eq!(of(limit(Some(200)), own()), 0, "as the spec says");
        assert_eq!(of(own(), Limit { identity: 8, ..limit(None) }), 0, "another cgroup");
        assert_eq!(of(own(), Limit { spec: 2, ..limit(Some(200)) }), 0, "a resize");
        assert_eq!(of(Limit { is_new: true, ..limit(None) }, limit(Some(90))), 0, "it is just being made");
        assert_eq!(of(own(), Limit { by_spec: None, ..limit(Some(200)) }), 1);
    }

    #[test]
    fn limits_are_read_after_a_write_when_a_cgroup_is_new_and_each_minute() {
        let at = Duration::from_secs;
        let own = || write(7, "memory.max", "8192", 1);
        let mut watch = LimitWatch::default();
        assert!(watch.is_due(at(0), Some(&[])), "they were never read");
        watch.update(at(0), vec![Limit { is_new: true, ..limit(None) }], Vec::new());
        assert!(watch.is_due(at(5), Some(&[])), "a cgroup is new");
        watch.update(at(5), vec![limit(None)], Vec::new());
        for (time, writes, expected) in [
            (10, Some(Vec::new()), false),
            (10, Some(vec![own()]), true),
            (10, None, true),
            (64, Some(Vec::new()), false),
            (65, Some(Vec::new()), true),
        ] {
            assert_eq!(watch.is_due(at(time), writes.as_deref()), expected, "{time} {writes:?}");
        }
    }

    #[test]
    fn a_change_is_reported_once_and_back_again_is_none() {
        let mut watch = LimitWatch::default();
        let counts: Vec<usize> = [Some(100), Some(200), Some(200), Some(100), None]
            .map(|value| watch.update(NOW, vec![limit(value)], Vec::new()).len())
            .to_vec();
        assert_eq!(counts, [0, 1, 0, 0, 1]);
        assert_eq!(watch.update(NOW, Vec::new(), Vec::new()), []);
    }

    fn write(cgroup: u64, file: &'static str, text: &str, pid: u32) -> LimitWrite {
        let writer = Writer { pid, command: "sh".into(), ..Writer::default() };
        LimitWrite { cgroup, file, text: text.into(), writer }
    }

    #[test]
    fn the_last_one_who_wrote_the_value_is_the_writer() {
        let pid = |earlier: Vec<LimitWrite>, later: Vec<LimitWrite>| {
            let mut watch = LimitWatch::default();
            watch.update(NOW, vec![limit(Some(100))], earlier);
            let changed = watch.update(NOW, vec![limit(Some(8192))], later);
            changed[0].writer.as_ref().map(|writer| writer.pid)
        };
        let right = |pid| write(7, "memory.max", "8192", pid);
        assert_eq!(pid(vec![], vec![]), None);
        assert_eq!(pid(vec![], vec![right(1), right(2)]), Some(2));
        assert_eq!(pid(vec![right(1)], vec![]), Some(1), "just after the reading");
        assert_eq!(pid(vec![], vec![right(1), write(7, "memory.max", "4096", 2)]), Some(1), "refused");
        for other in [
            write(8, "memory.max", "8192", 1),
            write(7, "cpu.max", "8192", 1),
            write(7, "memory.max", "4096", 1),
            write(7, "memory.max", "x", 1),
        ] {
            assert_eq!(pid(vec![], vec![other.clone()]), None, "{other:?}");
        }
    }

    #[test]
    fn writes_before_the_reading_before_are_forgotten() {
        let mut watch = LimitWatch::default();
        watch.update(NOW, vec![limit(Some(100))], vec![write(7, "memory.max", "8192", 1)]);
        watch.update(NOW, vec![limit(Some(100))], Vec::new());
        assert_eq!(watch.update(NOW, vec![limit(Some(8192))], Vec::new())[0].writer, None);
    }

    #[test]
    fn the_message_names_the_writer_where_it_is_known() {
        let writer = write(7, "memory.max", "", 9).writer;
        let changed = |writer| Changed { now: limit(None), before: Some(100), writer };
        let start = "memory.max of /kubepods/podu/c was 100 and is no limit now";
        let end = ", although the pod's spec has not changed";
        assert_eq!(changed(None).message(), format!("{start}{end}"));
        assert_eq!(changed(Some(writer)).message(), format!("{start}, written by sh (pid 9){end}"));
    }
}
