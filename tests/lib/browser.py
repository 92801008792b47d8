# SPDX-License-Identifier: GPL-2.0-or-later
"""Chromium without a display, driven over the WebDriver protocol."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile


class BrowserError(Exception):
    """The browser does not do what it should."""


def missing():
    """What is not installed, or None."""
    for program in ('chromium', 'chromedriver'):
        if not shutil.which(program):
            return f'{program} is not installed'
    return None


class Browser:
    """A browser with one page; use it in a with statement."""

    def __init__(self, width=1000, height=800):
        self.size = f'--window-size={width},{height}'

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='backtrail-')
        # A group of its own, so that what the browser starts ends with it
        self.driver = subprocess.Popen(
            ['chromedriver', '--port=0'], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, 'HOME': self.folder, 'TMPDIR': self.folder})
        self.session = None
        try:
            for line in self.driver.stdout:
                found = re.search(r'successfully on port (\d+)', line)
                if found:
                    break
            else:
                raise BrowserError('chromedriver does not start')
            self.port = int(found[1])
            self.session = self.ask('POST', '/session', {'capabilities': {
                'alwaysMatch': {
                    'goog:loggingPrefs': {'browser': 'ALL'},
                    'goog:chromeOptions': {'args': [
                        '--headless=new', '--no-sandbox', '--disable-gpu',
                        '--disable-dev-shm-usage', '--no-first-run',
                        f'--user-data-dir={self.folder}/profile',
                        # Whatever is asked of the network is not there.
                        '--host-resolver-rules=MAP * ~NOTFOUND',
                        self.size]}}}})['sessionId']
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        try:
            if self.session:
                self.ask('DELETE', f'/session/{self.session}')
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port,
                                                timeout=120)
        try:
            connection.request(method, path,
                               None if body is None else json.dumps(body),
                               {'Content-Type': 'application/json'})
            answer = json.loads(connection.getresponse().read())['value']
        finally:
            connection.close()
        if isinstance(answer, dict) and 'error' in answer:
            raise BrowserError(f'{path}: {answer["message"]}')
        return answer

    def open(self, path):
        self.ask('POST', f'/session/{self.session}/url',
                 {'url': 'file://' + os.path.abspath(path)})

    def run(self, script, *args):
        """Run JavaScript in the page; what it returns"""
        return self.ask('POST', f'/session/{self.session}/execute/sync',
                        {'script': script, 'args': list(args)})

    def devtools(self, command, **params):
        """Ask Chromium by its own protocol."""
        return self.ask('POST', f'/session/{self.session}/goog/cdp/execute',
                        {'cmd': command, 'params': params})

    def screenshot(self):
        """The page as the bytes of a PNG"""
        return base64.b64decode(
            self.ask('GET', f'/session/{self.session}/screenshot'))

    def log(self):
        """What the page has said on its console, errors above all"""
        return self.ask('POST', f'/session/{self.session}/se/log',
                        {'type': 'browser'})
