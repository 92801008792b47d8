# SPDX-License-Identifier: GPL-2.0-or-later
"""a module is loaded where another one was"""

import time

KERNEL = '6.12-cloud'
CASES = {'reload': {}, 'reload-7.3': {'kernel': '7.3-cloud'}}
ROUNDS = 3


def run(lab):
    times = []
    with lab.guest(modules=('dummy', 'tun')) as g:
        before = g.tell()
        with g.traced('reload.btrail') as trace:
            for module, use in (
                    ('dummy', 'ip link add d0 type dummy; for i in 1 2 3 4 5; '
                     'do ip link set d0 up; ip link set d0 down; done'),
                    ('tun', 'counted')):
                g.run(f'modprobe {module}')
                begin = time.monotonic()
                g.run(use)
                # It is there for so long that it is seen.
                time.sleep(1.5)
                g.run(use.partition(';')[2] or use)
                told = g.tell()
                times.append((module, begin, time.monotonic(), told))
                if module == 'dummy':
                    g.run('ip link del d0')
                g.run(f'rmmod {module}')
                time.sleep(0.5)
        after = g.tell()
    places = [told.modules[module][0] for module, _, _, told in times]
    lab.facts['both at'] = f'{places[0]:#x}' if places[0] == places[1] else \
        f'no same place, but {places[0]:#x} and {places[1]:#x}'
    lab.sound(trace)
    programs = lab.programs()
    for module, begin, end, told in times:
        lab.judge(trace, [told], module, start=begin, end=end,
                  programs=programs)
    everything = [before, after, *(told for _, _, _, told in times)]
    lab.judge(trace, everything, 'all', programs=programs,
              init=[lab.init_code(module) for module, _, _, _ in times])
