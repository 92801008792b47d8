# SPDX-License-Identifier: GPL-2.0-or-later
"""programs in containers, and of files without a name or already deleted"""

import re

import account

KERNEL = '6.12-cloud'
CASES = {'containers': {}, 'containers-7.3': {'kernel': '7.3-cloud'}}
ROOT = '''mkdir -p /tmp/low/proc /tmp/low/bin /tmp/up /tmp/work /tmp/root
cp /programs/programs /tmp/low/bin/lower && ln -s lower /tmp/low/bin/spin
mount -t overlay -o lowerdir=/tmp/low,upperdir=/tmp/up,workdir=/tmp/work o \
/tmp/root'''


def run(lab):
    with lab.guest(modules=('overlay',)) as g:
        # The initramfs itself cannot be the upper layer.
        g.run('modprobe overlay')
        for line in ROOT.split('\n'):
            g.run(line)
        with g.traced('containers.btrail') as trace:
            said = g.run('box /tmp/root /bin/spin') + g.run('memfd my-file') + \
                g.run('gone')
        told = g.tell()
    lab.sound(trace)
    files = {'box': 'lower', 'memfd': 'memfd:my-file', 'gone': 'gone-file'}
    lab.judge(trace, [told], programs=lab.programs(*files.values()))
    found = account.rows(trace, 'comm,pid,dso,sym')
    for what, file in files.items():
        pid = re.search(rf'BT: {what} pid=(\d+)', said)[1]
        rows = [r for r in found if r['pid'] == pid and
                r['sym'] == 'spin_step']
        lab.facts[what] = ', '.join(f'{r["comm"]} of {r["dso"]}' for r in rows)
        lab.check('files', [r['dso'] for r in rows] == [file],
                  f'{what}: spin_step of {[r["dso"] for r in rows]}')
