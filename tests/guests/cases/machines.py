# SPDX-License-Identifier: GPL-2.0-or-later
"""other processors, and other memory"""

import basic

KERNEL = '6.12-cloud'
NUMA = ['-numa', 'node,nodeid=0,cpus=0,memdev=m0',
        '-numa', 'node,nodeid=1,cpus=1,memdev=m1']
CASES = {
    'la57-on': {'cpu': 'max'},
    'la57-off': {'cpu': 'max,la57=off'},
    'la57-on-7.3': {'kernel': '7.3-cloud', 'cpu': 'max'},
    'la57-on-6.1': {'kernel': '6.1-cloud', 'cpu': 'max'},
    'pti': {'words': ['pti=on']},
    'pc-6G': {'memory': 6144},
    'q35-6G': {'memory': 6144, 'board': 'q35'},
    'numa': {'ram': [('m0', 256), ('m1', 256)], 'more': NUMA},
}


def run(lab, **options):
    basic.run(lab, **options)
