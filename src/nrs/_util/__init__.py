"""What every package uses: files, optional packages, seeds, processes, locks, progress."""
