# SPDX-License-Identifier: GPL-2.0-or-later
"""threads of io_uring read for a process"""

import re

import account

KERNEL = '6.12-cloud'
CASES = {'uring': {}, 'uring-7.3': {'kernel': '7.3-cloud'}}


def run(lab):
    with lab.guest() as g:
        with g.traced('uring.btrail') as trace:
            pids = [re.search(r'uring pid=(\d+)', g.run(line))[1]
                    for line in ('uring 200', 'uring 200 poll')]
        told = g.tell()
    lab.sound(trace)
    lab.judge(trace, [told], programs=lab.programs())
    rows = account.rows(trace, 'comm,pid,tid')
    for pid, kinds in zip(pids, (('iou-wrk',), ('iou-wrk', 'iou-sqp'))):
        for kind in kinds:
            lab.check('threads', any(
                r['comm'].startswith(f'{kind}-') and r['pid'] == pid and
                r['tid'] != pid for r in rows),
                f'no thread {kind} of {pid}')
