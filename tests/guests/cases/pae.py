# SPDX-License-Identifier: GPL-2.0-or-later
"""a 32-bit kernel: it has no BTF, so that its functions are known, and no tasks"""

import json
import subprocess

import account
import backtrail

CASES = {'6.1-686-pae': {'kernel': '6.1-686-pae'}}
PROGRAMS = 5


def page_tables(trace):
    """Those that CR3 events name: what has 32 bytes each, in pages or not"""
    found = set()
    with subprocess.Popen([backtrail.binary(), 'script', '--events-only',
                           '--json', trace], stdout=subprocess.PIPE) as script:
        for line in script.stdout:
            event = json.loads(line)
            if event['event'] == 'cr3':
                found.add(int(event['cr3'], 16) & 0xffffffe0)
    return found


def run(lab):
    with lab.guest(memory=512) as g:
        with g.traced('pae.btrail') as trace:
            g.run(f'for i in $(seq {PROGRAMS}); do spin 400 & done; wait')
        told = g.tell()
        said = g.record.output()
    lab.sound(trace)
    lab.facts['record'] = said.strip().splitlines()[-1].partition(' ')[2]
    lab.check('missing', 'BTF' in said or 'BTF' in json.dumps(
        backtrail.run_json('info', trace)), 'nothing says that BTF is missing')
    lab.judge(trace, [told], task=1, programs=lab.programs())
    spaces = backtrail.run_json('report', '--top', '0', trace)['spaces']
    tables = page_tables(trace)
    lab.facts['address spaces'] = len(spaces)
    lab.check('address spaces', len(tables) - 1 <= len(spaces) <= len(tables)
              + 1, f'{len(spaces)} address spaces; CR3 had {len(tables)} values')
    busy = sum(s['share'] > 0.5 / PROGRAMS for s in spaces)
    lab.check('address spaces', busy >= PROGRAMS, f'{busy} address spaces have '
              f'much of what {PROGRAMS} programs did')
