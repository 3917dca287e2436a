"""Faults injected into commands: signals, full disks, dead and hung processes; and memory over long runs."""
