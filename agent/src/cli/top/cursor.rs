//! The chosen row, and the first one on the screen. Pure.

use super::rates::Row;

/// It stays at its cgroup while rows change places, but at the first row whatever that is until it is moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Path of the chosen cgroup; `None` for the first row.
    held: Option<String>,
    /// Index of the chosen row.
    at: usize,
    /// Index of the first row that is shown.
    offset: usize,
}

impl Cursor {
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Finds the row again. `room` is the number of rows that fit.
    pub fn settle(&mut self, rows: &[&Row], room: usize) {
        let Some(held) = self.held.as_deref() else {
            self.at = 0;
            return self.show(rows.len(), room);
        };
        match rows.iter().position(|row| row.path == held) {
            Some(at) => self.at = at,
            // It is gone: the one in its place.
            None => self.hold(self.at, rows),
        }
        self.show(rows.len(), room);
    }

    /// Moves it down, or up if `by` is negative.
    pub fn step(&mut self, by: isize, rows: &[&Row], room: usize) {
        self.hold(self.at.saturating_add_signed(by), rows);
        self.show(rows.len(), room);
    }

    fn hold(&mut self, at: usize, rows: &[&Row]) {
        self.at = at.min(rows.len().saturating_sub(1));
        self.held = rows.get(self.at).filter(|_| self.at > 0).map(|row| row.path.clone());
    }

    /// Scrolls no further than needed.
    fn show(&mut self, rows: usize, room: usize) {
        let least = (self.at + 1).saturating_sub(room);
        self.offset = self.offset.clamp(least.min(self.at), self.at).min(rows.saturating_sub(room));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(paths: &str) -> Vec<Row> {
        paths.chars().map(|c| Row { path: c.to_string(), ..Row::default() }).collect()
    }

    fn settle(cursor: &mut Cursor, paths: &str) -> usize {
        cursor.settle(&rows(paths).iter().collect::<Vec<_>>(), 3);
        cursor.at()
    }

    #[test]
    fn it_stays_at_its_cgroup() {
        let mut cursor = Cursor::default();
        assert_eq!(settle(&mut cursor, "abcd"), 0);
        assert_eq!(settle(&mut cursor, "dcba"), 0, "the first row, whatever it is");
        cursor.step(1, &rows("dcba").iter().collect::<Vec<_>>(), 3);
        for (paths, at) in [("dcba", 1), ("cdba", 0), ("badc", 3), ("bad", 2), ("bda", 1), ("", 0), ("ab", 0)]
        {
            assert_eq!(settle(&mut cursor, paths), at, "{paths}");
        }
    }

    proptest! {
        #[test]
        fn it_is_always_in_view(
            steps in prop::collection::vec((-30isize..30, 0usize..25, 0usize..8), 1..40)
        ) {
            let all = rows("abcdefghijklmnopqrstuvwxy");
            let mut cursor = Cursor::default();
            for (by, count, room) in steps {
                let rows: Vec<&Row> = all.iter().take(count).collect();
                cursor.settle(&rows, room);
                cursor.step(by, &rows, room);
                prop_assert!(cursor.at() < count.max(1));
                prop_assert!(cursor.offset() <= cursor.at());
                prop_assert!(room == 0 || cursor.at() < cursor.offset() + room);
                prop_assert!(count < room || cursor.offset() + room <= count);
            }
        }
    }
}
