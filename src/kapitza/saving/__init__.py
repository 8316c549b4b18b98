"""Every noun in one file, without loss, without pickle."""

from kapitza.saving.verbs import load, save
