# SPDX-License-Identifier: GPL-2.0-or-later
"""speedscope with export -f folded and -f perf, in Chromium

What it has made of a file is what it saves.
"""

import base64
import collections
import json
import os
import time

import browser
import known
import peers

VERSION = '1.25.0'
ROWS = {'speedscope': {'version': VERSION, 'form': 'folded'},
        'speedscope-perf': {'version': VERSION, 'form': 'perf'}}
KEEP = '''
window.saved = [];
const create = URL.createObjectURL;
URL.createObjectURL = blob => {
    blob.text().then(text => window.saved.push(text));
    return create.call(URL, blob);
};
'''
SAVE = '''
const all = [...document.querySelectorAll('*')].filter(
    e => e.children.length < 2 && e.textContent.includes('Export'));
if (all.length && !window.saved.length) {
    all[all.length - 1].click();
}
return window.saved[0] || null;
'''


def saved(version, path):
    """The profiles that speedscope saves of a file"""
    page = os.path.join(peers.npm('speedscope', version), 'dist', 'release',
                        'index.html')
    with open(path, 'rb') as f:
        data = base64.b64encode(f.read()).decode()
    # As its command has a page of its own load a file
    script = os.path.join(peers.scratch(), 'load.js')
    with open(script, 'w', encoding='ascii') as f:
        f.write(f'speedscope.loadFileFromBase64('
                f'{json.dumps(os.path.basename(path))}, "{data}")')
    with browser.Browser() as b:
        b.devtools('Page.addScriptToEvaluateOnNewDocument', source=KEEP)
        b.open(f'{page}#localProfilePath={script}')
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text = b.run(SAVE)
            if text:
                return json.loads(text)
            time.sleep(0.5)
        raise peers.Wrong(f'speedscope does not load {path}: {b.log()}')


def stacks(profile, names):
    """{stack: weight} of a profile, and how often each function is entered"""
    weights, entered = collections.Counter(), collections.Counter()
    stack, last = [], profile['startValue']
    peers.equal('type', profile['type'], 'evented')
    for event in profile['events']:
        if event['at'] > last:
            weights[';'.join(stack)] += event['at'] - last
            last = event['at']
        name = names[event['frame']]
        if event['type'] == 'O':
            stack.append(name)
            entered[name] += 1
        else:
            peers.equal('frame', stack.pop(), name)
    return weights, entered


def run(version, form):
    if browser.missing():
        raise peers.Missing(browser.missing())
    file = saved(version, peers.export(form, known.USER))
    profile, = file['profiles']
    weights, entered = stacks(profile, [frame['name'] for frame in
                                        file['shared']['frames']])
    want = known.stacks(peers.export('folded', known.USER))
    if form == 'folded':
        peers.equal('stacks', weights, want)
        peers.equal(known.LEAF, sum(
            n for stack, n in weights.items() if stack.endswith(known.LEAF)),
            known.LEAF_BRANCHES)
        return
    # It shows the time between samples, in which the thread can have waited.
    peers.equal('profile', profile['name'].split()[0], 'known')
    peers.equal('functions', set(entered), {
        name for stack in want for name in stack.split(';')[1:]})
    peers.equal('once() is entered', entered['known::once(int)'], 1)
    slept = sum(n for stack, n in weights.items() if '__sleep' in stack)
    peers.equal('time', (profile['unit'], slept >= 1), ('seconds', True))
