"""Chats in the export formats of chat applications."""
