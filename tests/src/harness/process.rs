//! Finding processes by their command line.

/// Pids and command lines of living processes (no zombies) whose command line contains `text`, without this
/// process.
pub fn command_line_contains(text: &str) -> Vec<(u32, String)> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| {
            // A zombie's command line is empty.
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(text).then_some((pid, line))
        })
        .collect()
}
