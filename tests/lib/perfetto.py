# SPDX-License-Identifier: GPL-2.0-or-later
"""Timelines of Perfetto, as tests read them."""

import collections
import re

# The part of Perfetto's published schema that is used, by its numbers
SCHEMA = '''
syntax = "proto2";
message Trace { repeated TracePacket packet = 1; }
message TracePacket {
  optional FtraceEventBundle ftrace_events = 1;
  optional ProcessTree process_tree = 2;
  optional uint64 timestamp = 8;
  optional uint32 trusted_packet_sequence_id = 10;
  optional TrackEvent track_event = 11;
  optional InternedData interned_data = 12;
  optional uint32 sequence_flags = 13;
  optional SystemInfo system_info = 45;
  optional TrackDescriptor track_descriptor = 60;
}
message FtraceEventBundle {
  message CompactSched {
    repeated string intern_table = 5;
    repeated uint64 switch_timestamp = 1 [packed = true];
    repeated int64 switch_prev_state = 2 [packed = true];
    repeated int32 switch_next_pid = 3 [packed = true];
    repeated int32 switch_next_prio = 4 [packed = true];
    repeated uint32 switch_next_comm_index = 6 [packed = true];
    repeated uint64 waking_timestamp = 7 [packed = true];
    repeated int32 waking_pid = 8 [packed = true];
    repeated int32 waking_target_cpu = 9 [packed = true];
    repeated int32 waking_prio = 10 [packed = true];
    repeated uint32 waking_comm_index = 11 [packed = true];
  }
  optional uint32 cpu = 1;
  repeated FtraceEvent event = 2;
  optional CompactSched compact_sched = 4;
}
message FtraceEvent {
  optional uint64 timestamp = 1;
  optional uint32 pid = 2;
  optional SchedWakingFtraceEvent sched_waking = 20;
}
message SchedWakingFtraceEvent {
  optional string comm = 1;
  optional int32 pid = 2;
}
message ProcessTree {
  message Thread {
    optional int32 tid = 1;
    optional string name = 2;
    optional int32 tgid = 3;
  }
  repeated Thread threads = 2;
}
message Utsname {
  optional string sysname = 1;
  optional string release = 3;
  optional string machine = 4;
}
message SystemInfo { optional Utsname utsname = 1; }
message InternedData { repeated EventName event_names = 2; }
message EventName { optional uint64 iid = 1; optional string name = 2; }
message TrackDescriptor {
  optional uint64 uuid = 1;
  optional string name = 2;
  optional ProcessDescriptor process = 3;
  optional ThreadDescriptor thread = 4;
  optional uint64 parent_uuid = 5;
}
message DebugAnnotation {
  optional uint64 uint_value = 3;
  optional string name = 10;
}
message ProcessDescriptor {
  optional int32 pid = 1;
  optional string process_name = 6;
}
message ThreadDescriptor {
  optional int32 pid = 1;
  optional int32 tid = 2;
  optional string thread_name = 5;
}
message TrackEvent {
  enum Type {
    TYPE_UNSPECIFIED = 0;
    TYPE_SLICE_BEGIN = 1;
    TYPE_SLICE_END = 2;
    TYPE_INSTANT = 3;
  }
  repeated DebugAnnotation debug_annotations = 4;
  optional Type type = 9;
  optional uint64 name_iid = 10;
  optional uint64 track_uuid = 11;
  optional string name = 23;
}
'''

# States of tasks that leave, by what sched_switch says of them, since Linux 4.14
STATES = {0: 'R', 1: 'S', 2: 'D', 16: 'X', 0x200: None}


def bundles(text):
    """What a timeline that protoc has decoded has of ftrace: {cpu: [(time,
    'switch', thread, state of the one before)]}, and [(time, cpu, 'wake',
    thread, waker or None)], of which None is what runs there"""
    switches, wakes = collections.defaultdict(list), []
    for packet in text.split('\npacket {'):
        if 'ftrace_events {' not in packet:
            continue
        cpu = int(re.search(r'cpu: (\d+)', packet)[1])

        def column(name):
            return [int(n) for n in re.findall(rf'\b{name}: (\d+)', packet)]

        def times(name):
            total = 0
            for delta in column(name):
                total += delta
                yield total

        rows = (column('switch_next_pid'), column('switch_prev_state'),
                column('switch_next_comm_index'), column('switch_next_prio'))
        at = list(times('switch_timestamp'))
        assert {len(row) for row in rows} == {len(at)}
        switches[cpu] += [(time, 'switch', pid, STATES[state])
                          for time, pid, state in zip(at, *rows[:2])]
        at = list(times('waking_timestamp'))
        woken = column('waking_pid')
        assert len(woken) == len(at) == len(column('waking_target_cpu'))
        wakes += [(time, cpu, 'wake', pid, None)
                  for time, pid in zip(at, woken)]
        for event in re.findall(r'timestamp: (\d+)\s+pid: (\d+)\s+'
                                r'sched_waking {[^}]*pid: (\d+)', packet):
            wakes.append((int(event[0]), cpu, 'wake', int(event[2]),
                          int(event[1])))
    return switches, wakes


def thread_states(text):
    """{thread: [(time, state, vCPU or waker)]}, as trace_processor finds them:
    state is Running, or as in sched_switch, or None where it is not known"""
    switches, wakes = bundles(text)
    # Switches of a bundle come before its wake-ups.
    events = [(time, cpu, kind, pid, state)
              for cpu, rows in switches.items()
              for time, kind, pid, state in rows] + wakes
    states, runs = collections.defaultdict(list), {}
    for time, cpu, kind, pid, more in sorted(events, key=lambda e: e[0]):
        if kind == 'switch':
            # The first one of a CPU only says who runs before the second one.
            before = runs.get(cpu)
            runs[cpu] = pid
            if before:
                states[before].append((time, more, None))
            if before is not None and pid:
                states[pid].append((time, 'Running', cpu))
        elif not states[pid] or states[pid][-1][1] not in ('R', 'Running'):
            states[pid].append((time, 'R', more if more is not None else
                                runs.get(cpu)))
    return states
