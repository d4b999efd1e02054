//! Order, coalescing, failure and the end of background writes.

use std::sync::mpsc;
use std::time::Duration;

use super::*;

/// The values written so far.
type Written = Arc<Mutex<Vec<u32>>>;

/// A write that fails for odd numbers.
fn write(written: &Written) -> impl Fn(u32) -> Result<(), String> + Send + Sync + use<> {
    let written = written.clone();
    move |value| {
        written.lock().push(value);
        if value % 2 == 0 { Ok(()) } else { Err(format!("{value} is odd")) }
    }
}

#[test]
fn on_a_thread_only_the_newest_value_is_written() {
    let (begun, beginning) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let written = Written::default();
    let own = written.clone();
    let behind = WriteBehind::on_thread("test", "nothing", move |value: u32| {
        begun.send(value).unwrap();
        gate.lock().recv().unwrap();
        own.lock().push(value);
        Ok::<_, String>(())
    });
    behind.settle().unwrap();
    behind.save(0);
    assert_eq!(beginning.recv(), Ok(0));
    (1..=5).for_each(|value| behind.save(value));
    go.send(()).unwrap();
    go.send(()).unwrap();
    behind.settle().unwrap();
    assert_eq!(*written.lock(), [0, 5]);
    // Idle: the thread has ended, or is about to find that there is nothing more.
    while Arc::strong_count(&behind.0) > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(behind.0.slot.lock().newest.is_none());
}

#[test]
fn a_value_is_written_after_the_drop() {
    let (sent, written) = mpsc::channel();
    let behind = WriteBehind::on_thread("test", "nothing", move |value: u32| sent.send(value));
    behind.save(7);
    drop(behind);
    assert_eq!(written.recv_timeout(Duration::from_secs(30)), Ok(7));
}

#[test]
fn the_error_of_the_last_write_is_returned_until_a_write_succeeds() {
    let written = Written::default();
    let behind = WriteBehind::on_thread("test", "nothing", write(&written));
    behind.save(1);
    assert_eq!(behind.settle().unwrap_err().as_ref(), "1 is odd");
    assert_eq!(behind.settle().unwrap_err().as_ref(), "1 is odd");
    behind.save(2);
    behind.settle().unwrap();
    assert_eq!(*written.lock(), [1, 2]);
}

#[test]
fn a_panic_in_a_write_does_not_block_the_next_value() {
    let behind = WriteBehind::on_thread("test", "nothing", |value: u32| match value {
        // Without the message and the backtrace, which would load the symbols into this process.
        1 => std::panic::resume_unwind(Box::new("planted")),
        _ => Ok::<_, String>(()),
    });
    behind.save(1);
    behind.settle().unwrap();
    behind.save(2);
    behind.settle().unwrap();
    assert_eq!(behind.0.slot.lock().done, 2);
}

#[tokio::test]
async fn in_a_runtime_everything_is_written_when_it_has_settled() {
    let written = Written::default();
    let behind = WriteBehind::on_blocking_thread("nothing", write(&written));
    behind.settled().await.unwrap();
    for round in 0..3 {
        (0..=4).for_each(|n| behind.save(round * 10 + n));
        behind.settled().await.unwrap();
        assert_eq!(written.lock().last(), Some(&(round * 10 + 4)));
    }
    // The waiting caller has it written.
    behind.save_when_settled(100);
    behind.settled().await.unwrap();
    assert_eq!(written.lock().last(), Some(&100));
    // Together with a value for which a background writer was started.
    behind.save(101);
    behind.save_when_settled(102);
    behind.settled().await.unwrap();
    assert_eq!(written.lock().last(), Some(&102));
}

/// A task waits for other things beside the disk, which may never answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_disk_that_hangs_holds_neither_the_caller_nor_other_tasks() {
    let (answer, disk) = mpsc::channel::<()>();
    let disk = Mutex::new(disk);
    let behind = WriteBehind::on_blocking_thread("nothing", move |_: u32| {
        let _ = disk.lock().recv_timeout(Duration::from_secs(20));
        Ok::<_, String>(())
    });
    behind.save_when_settled(1);
    let begun = std::time::Instant::now();
    for round in 0..3 {
        let settled = tokio::time::timeout(Duration::from_millis(20), behind.settled()).await;
        assert!(settled.is_err(), "{round}: the disk has not answered");
    }
    assert_eq!(tokio::spawn(async { 7 }).await.unwrap(), 7);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    answer.send(()).unwrap();
    behind.settled().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_wait_at_once_find_their_values_written() {
    let written = Written::default();
    let behind = WriteBehind::on_blocking_thread("nothing", write(&written));
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let behind = behind.clone();
            tokio::spawn(async move {
                if n % 3 == 0 {
                    behind.save(n * 2);
                } else {
                    behind.save_when_settled(n * 2);
                }
                behind.settled().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(behind.0.slot.lock().done, 50);
}

#[test]
fn a_writer_that_the_runtime_dropped_does_not_block_those_that_wait() {
    let written = Written::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let behind = runtime.block_on(async { WriteBehind::on_blocking_thread("nothing", write(&written)) });
    drop(runtime);
    behind.save(2);
    behind.settle().unwrap();
    assert_eq!(*written.lock(), [2]);
}
