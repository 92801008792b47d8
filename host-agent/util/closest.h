/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The word that somebody may have meant
 */

#ifndef BTRAIL_CLOSEST_H
#define BTRAIL_CLOSEST_H

/**
 * struct closest - a search for the word that is most like another one
 * @word:     what somebody wrote; the caller's
 * @found:    the closest word so far, of those that were offered; NULL if none
 *            is close
 * @distance: how many characters have to be added, removed, replaced, or
 *            swapped with the next one, to make @found of @word
 */
struct closest {
    const char *word;
    const char *found;
    unsigned distance;
};

/* Begins a search. */
struct closest closest_to(const char *word);

/*
 * Offers a word, which lives as long as the search.  It is close if at most a
 * third of the characters of what was written are different, so nothing is
 * close to words of one or two characters.
 */
void closest_offer(struct closest *c, const char *word);

/*
 * Returns " (did you mean 'WORD'?)", or "" if no word is close, to follow the
 * word in a message.
 */
char *closest_hint(const struct closest *c);

#endif /* BTRAIL_CLOSEST_H */
