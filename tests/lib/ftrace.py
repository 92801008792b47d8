# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tracer of a guest's kernel has written, as its file trace says it"""

import re

import qemu

# With the option record-tgid, each line has the tgid.
LINE = re.compile(r' *(?P<comm>.*)-(?P<tid>\d+) +(\( *(?P<tgid>[-\d]+)\) )?'
                  r'\[(?P<cpu>\d+)\] \S+ +(?P<time>[\d.]+): (?P<event>\w+): '
                  r'(?P<rest>.*)')
SWITCH = re.compile(r'prev_comm=.* prev_pid=(?P<before>\d+) prev_prio=\d+ '
                    r'prev_state=(?P<state>\S+) ==> next_comm=(?P<comm>.*) '
                    r'next_pid=(?P<tid>\d+) next_prio=\d+')


def lines(text):
    """An re.Match of LINE for each event"""
    for line in text.splitlines():
        m = LINE.fullmatch(line)
        if m:
            yield m
        elif line and not line.startswith('#'):
            raise qemu.QemuError(f'no event: {line}')


def switch(m):
    """Of the line of a sched_switch"""
    return SWITCH.fullmatch(m['rest'])
