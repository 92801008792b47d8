/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A library with functions that others may call, for tests; built in several
 * ways.  Many names, so that buckets of hash tables have several.
 */

#define ONE(name) \
    int name(int n); \
    int name(int n) { return n + sizeof(#name); }
#define EIGHT(name) \
    ONE(name##a) ONE(name##b) ONE(name##c) ONE(name##d) \
    ONE(name##e) ONE(name##f) ONE(name##g) ONE(name##h)

EIGHT(sample_)
EIGHT(sample_one_)
EIGHT(sample_two_)
EIGHT(sample_three_)

int sample_data = 1;
int sample_missing(void);

__attribute__((visibility("hidden"))) int sample_hidden(int n);
int sample_hidden(int n)
{
    return n ? sample_missing() : 0;
}

int sample_calls(int n);
int sample_calls(int n)
{
    return sample_hidden(n) + sample_data;
}
