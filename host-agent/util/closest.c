/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The word that somebody may have meant: see closest.h
 */

#include <glib.h>
#include <string.h>

#include "util/closest.h"

/* Nobody types longer words, and the work is that of their product. */
#define MAX_LENGTH  64

struct closest closest_to(const char *word)
{
    return (struct closest) { word, NULL, strlen(word) / 3 + 1 };
}

/*
 * The distance of Damerau and Levenshtein, as far as no part is changed twice:
 * row i of the table has the distances of the first i characters of @a.
 */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned rows[3][MAX_LENGTH + 1];

    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *last = rows[(i + 2) % 3];
        const unsigned *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = MIN(last[j], row[j - 1]) + 1;
            row[j] = MIN(row[j], last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1]) {
                row[j] = MIN(row[j], before[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

void closest_offer(struct closest *c, const char *word)
{
    size_t n = strlen(c->word), m = strlen(word);
    unsigned d;

    if (n > MAX_LENGTH || m > MAX_LENGTH ||
        MAX(n, m) - MIN(n, m) >= c->distance) {
        return;
    }
    d = distance(c->word, n, word, m);
    if (d < c->distance) {
        c->distance = d;
        c->found = word;
    }
}

char *closest_hint(const struct closest *c)
{
    return c->found ? g_strdup_printf(" (did you mean '%s'?)", c->found) :
           g_strdup("");
}
