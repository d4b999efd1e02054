//! QEMU: its command line, its life, and the lines of the guest's second serial port.
//!
//! Emulated in software: /dev/kvm is seldom usable where this runs, and the same everywhere is worth more
//! here.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use super::assets::Qemu;
use super::tsc;
use nodewarden_guest_job::{NODE_DISK, ROOT_DISK, SCRATCH_DISK};

/// What a guest sees of memory, in MiB, unless said otherwise. The tests' cgroups are far smaller, and
/// containerd fits too.
pub const MEMORY_MIB: u32 = 1024;
/// `panic=-1`: a panic restarts at once, which `-no-reboot` turns into QEMU's end. The log is large enough
/// that what the kernel says at each OOM kill does not push out what must be seen in the end.
/// `no_timer_check`: a machine that gets hardly any time from a busy host would find that its timer does not
/// work, and panic. `tsc=reliable`: such a machine would also find that its clock is wrong, and count with
/// two clocks from then on; `tsc_early_khz` is added, see `tsc`. What protects a machine against attackers,
/// and its watchdog, are off: no test is about them, and without them a guest needs a tenth less of the CPUs
/// (6.12, 29 tests: 104 and 94 s).
const KERNEL_LINE: &str = "console=ttyS0 panic=-1 quiet mitigations=off init_on_alloc=0 audit=0 nowatchdog \
                           randomize_kstack_offset=off hardened_usercopy=off log_buf_len=4M no_timer_check \
                           tsc=reliable";

/// A machine to start.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The QEMU.
    pub qemu: &'a Qemu,
    /// The ELF image of the kernel.
    pub kernel: &'a Path,
    /// The initramfs.
    pub initramfs: &'a Path,
    /// A Debian root.
    pub root: Option<&'a Path>,
    /// For a node of a cluster, the disk with its job: what it writes to its root then stays, and it has
    /// QEMU's user network, in which it reaches this machine's loopback.
    pub node: Option<&'a Path>,
    /// An empty ext4 disk.
    pub scratch: Option<&'a Path>,
    /// What it sees of memory, in MiB.
    pub memory_mib: u32,
    /// Its CPUs and NUMA nodes.
    pub shape: Shape,
    /// How its CPUs are emulated.
    pub emulation: Emulation,
    /// Where the first serial port goes.
    pub console: Console<'a>,
}

/// How QEMU emulates a guest's CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Emulation {
    /// All CPUs in one thread. With a thread for each, a CPU sometimes runs a breakpoint that the kernel has
    /// taken away again while it changed its own code (tracepoints and program statistics that are turned
    /// on), and panics with `int3`.
    #[default]
    OneThread,
    /// A thread for each CPU: a quarter quicker where this machine has nothing else to do. For guests that
    /// attach no kernel programs.
    ThreadPerCpu,
    /// As [`Emulation::OneThread`], and the guest's clock counts its instructions, a nanosecond each, while
    /// it works, instead of this machine's time: what it measures is then that of a slow machine of its own,
    /// however slow or busy this one is. An idle guest's clock follows this machine's (QEMU:
    /// docs/devel/tcg-icount.rst).
    VirtualTime,
}

impl Emulation {
    /// The value of QEMU's `-accel`, and options that belong to it.
    fn accelerator(self) -> &'static str {
        match self {
            Self::OneThread => "tcg,thread=single",
            Self::ThreadPerCpu => "tcg,thread=multi",
            Self::VirtualTime => "tcg,thread=single -icount shift=0,sleep=on",
        }
    }
}

/// The CPUs of a guest, and its NUMA nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shape {
    /// Two CPUs, one NUMA node.
    #[default]
    Small,
    /// Two sockets with two cores of two threads each; each socket is a NUMA node with half of the memory.
    Numa,
}

impl Shape {
    /// QEMU's arguments for it, of a guest with this memory.
    fn arguments(self, memory_mib: u32) -> String {
        let half = memory_mib / 2;
        match self {
            Self::Small => "-smp 2".to_owned(),
            Self::Numa => format!(
                "-smp 8,sockets=2,cores=2,threads=2 -object memory-backend-ram,id=m0,size={half}M \
                 -object memory-backend-ram,id=m1,size={half}M -numa node,nodeid=0,cpus=0-3,memdev=m0 \
                 -numa node,nodeid=1,cpus=4-7,memdev=m1 -numa dist,src=0,dst=1,val=21"
            ),
        }
    }
}

/// The first serial port.
#[derive(Debug, Clone, Copy)]
pub enum Console<'a> {
    /// A file; the second port goes to QEMU's standard output.
    File(&'a Path),
    /// This process's terminal; the second port goes to a file.
    Terminal {
        /// That file.
        results: &'a Path,
    },
}

impl Plan<'_> {
    /// QEMU's arguments, without those that it always has.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::<OsString>::new();
        let machine = format!(
            "-accel {} -cpu Nehalem -M q35 {} -m {} -nodefaults -no-user-config \
             -display none -no-reboot",
            self.emulation.accelerator(),
            self.shape.arguments(self.memory_mib),
            self.memory_mib
        );
        arguments.extend(machine.split(' ').map(OsString::from));
        // A comma in a path is written twice (QEMU's documentation of its option syntax).
        let file = |path: &Path| path.to_string_lossy().replace(',', ",,");
        let (console, results) = match self.console {
            Console::File(path) => {
                (format!("file,id=console,path={}", file(path)), "stdio,id=results,signal=off".into())
            }
            Console::Terminal { results } => (
                "stdio,id=console,mux=on,signal=off".into(),
                format!("file,id=results,path={}", file(results)),
            ),
        };
        let mut add = |option: &str, value: String| arguments.extend([option.into(), value.into()]);
        for (id, chardev) in [("console", console), ("results", results)] {
            add("-chardev", chardev);
            add("-serial", format!("chardev:{id}"));
        }
        if matches!(self.console, Console::Terminal { .. }) {
            add("-mon", "chardev=console".into());
        }
        // What a guest writes goes to a temporary file that is gone with QEMU, unless it has to survive.
        let root_mode = if self.node.is_some() { "snapshot=off" } else { "snapshot=on" };
        for (path, serial, mode) in [
            (self.root, ROOT_DISK, root_mode),
            (self.scratch, SCRATCH_DISK, "snapshot=on"),
            (self.node, NODE_DISK, "readonly=on"),
        ] {
            let Some(path) = path else { continue };
            add("-drive", format!("if=none,id={serial},format=raw,{mode},cache=unsafe,file={}", file(path)));
            add("-device", format!("virtio-blk-pci,drive={serial},serial={serial}"));
        }
        if self.node.is_some() {
            add("-netdev", "user,id=net,ipv6=off".into());
            add("-device", "virtio-net-pci,netdev=net,romfile=".into());
        }
        add("-kernel", self.kernel.to_string_lossy().into_owned());
        add("-initrd", self.initramfs.to_string_lossy().into_owned());
        add("-append", self.kernel_line());
        arguments
    }

    /// The kernel's command line.
    fn kernel_line(&self) -> String {
        match tsc::frequency_khz().filter(|_| self.emulation != Emulation::VirtualTime) {
            Some(khz) => format!("{KERNEL_LINE} tsc_early_khz={khz}"),
            None => KERNEL_LINE.to_owned(),
        }
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let mut command = self.qemu.command();
        command.args(self.arguments());
        command
    }
}

/// A running QEMU; killed when dropped.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    /// Held open: its end would close the guest's port.
    _input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: JoinHandle<String>,
}

impl Machine {
    /// Starts it. It dies with the calling thread, and Ctrl-C does not reach it: the caller that waits for it
    /// ends it.
    ///
    /// # Errors
    /// When QEMU can't be started.
    pub fn start(plan: &Plan) -> io::Result<Self> {
        let mut command = plan.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: prctl is async-signal-safe, and the closure touches nothing else.
        unsafe {
            command.pre_exec(|| {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(io::Error::from)
            });
        }
        let mut child = command.spawn()?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| lossy_lines(BufReader::new(output))) {
                // An error once the machine was given up: the receiver is gone.
                let _ = send.send(line);
            }
        });
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            // What could be read is worth more than why the rest could not.
            let _ = errors.map(|mut errors| errors.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self { _input: child.stdin.take(), child, lines, errors })
    }

    /// The lines of the second serial port; disconnected when QEMU has ended.
    pub fn lines(&self) -> &Receiver<String> {
        &self.lines
    }

    /// Kills it if it still runs. Returns how it ended and what it said.
    ///
    /// # Errors
    /// When it can't be awaited.
    pub fn end(mut self, kill: bool) -> io::Result<(ExitStatus, String)> {
        if kill {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        let errors = std::mem::replace(&mut self.errors, thread::spawn(String::new));
        Ok((status, errors.join().unwrap_or_default()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Refused only when it has ended and was awaited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines without their ends; a broken pipe is the end.
fn lossy_lines(mut reader: impl BufRead) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(length) if length > 0 => Some(String::from_utf8_lossy(&line).trim_end().to_owned()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(console: Console, root: Option<&Path>) -> String {
        emulated(console, root, Emulation::default())
    }

    fn emulated(console: Console, root: Option<&Path>, emulation: Emulation) -> String {
        let qemu = Qemu { folder: "/q".into(), version: "1".into() };
        let plan = Plan {
            qemu: &qemu,
            kernel: Path::new("/k"),
            initramfs: Path::new("/i"),
            root,
            node: None,
            scratch: Some(Path::new("/a,b")),
            memory_mib: 2048,
            shape: Shape::Small,
            emulation,
            console,
        };
        plan.arguments().iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_serial_port_is_the_console() {
        let line = arguments(Console::File(Path::new("/c")), None);
        assert!(
            line.contains("-chardev file,id=console,path=/c -serial chardev:console -chardev stdio"),
            "{line}"
        );
        let line = arguments(Console::Terminal { results: Path::new("/r") }, None);
        assert!(line.contains("-chardev stdio,id=console,mux=on"), "{line}");
        assert!(line.contains(" -m 2048 "), "{line}");
    }

    #[test]
    fn virtual_time_counts_instructions() {
        let line = |emulation| emulated(Console::File(Path::new("/c")), None, emulation);
        let counted = line(Emulation::VirtualTime);
        assert!(counted.contains("-accel tcg,thread=single -icount shift=0,sleep=on -cpu"), "{counted}");
        assert!(!counted.contains("tsc_early_khz="), "{counted}");
        for emulation in [Emulation::OneThread, Emulation::ThreadPerCpu] {
            let line = line(emulation);
            assert!(!line.contains("-icount"), "{emulation:?}");
            assert!(!cfg!(target_arch = "x86_64") || line.contains(" tsc_early_khz="), "{line}");
        }
    }

    #[test]
    fn a_guest_with_numa_nodes_divides_its_memory() {
        let line = Shape::Numa.arguments(1536);
        assert!(line.contains("size=768M") && line.contains("nodeid=1,cpus=4-7,memdev=m1"), "{line}");
        assert_eq!(Shape::Small.arguments(1536), "-smp 2");
    }

    #[test]
    fn disks_are_named_and_never_written() {
        let line = arguments(Console::File(Path::new("/c")), Some(Path::new("/root.ext4")));
        assert_eq!(line.matches("snapshot=on").count(), 2);
        assert!(line.contains("file=/a,,b -device virtio-blk-pci,drive=nodewarden-scratch,"), "{line}");
        assert!(line.contains("serial=nodewarden-root "), "{line}");
    }

    #[test]
    fn a_node_keeps_its_root_and_has_a_network() {
        let qemu = Qemu { folder: "/q".into(), version: "1".into() };
        let plan = Plan {
            qemu: &qemu,
            kernel: Path::new("/k"),
            initramfs: Path::new("/i"),
            root: Some(Path::new("/root")),
            node: Some(Path::new("/node")),
            scratch: None,
            memory_mib: 1024,
            shape: Shape::Small,
            emulation: Emulation::default(),
            console: Console::File(Path::new("/c")),
        };
        let line = plan.arguments().iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        assert!(line.contains("snapshot=off,cache=unsafe,file=/root "), "{line}");
        assert!(line.contains("readonly=on,cache=unsafe,file=/node "), "{line}");
        assert!(line.contains("-netdev user,id=net"), "{line}");
    }

    #[test]
    fn serial_numbers_fit() {
        // virtio, section "Block Device": 20 bytes.
        assert!([ROOT_DISK, SCRATCH_DISK, NODE_DISK].iter().all(|serial| serial.len() <= 20));
    }

    #[test]
    fn lines_need_not_be_utf8_nor_end() {
        let lines = lossy_lines(&b"a\r\n\xff\nend"[..]).collect::<Vec<_>>();
        assert_eq!(lines, ["a", "\u{fffd}", "end"]);
    }
}
